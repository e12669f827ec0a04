"""Group records that may be pooled. Pure."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from reprokit.results.record import Record

# The fields in which pooled records agree. Excluded: samples, time and the machine's state, which differ in each
# measurement; clocks, which vary; reprokit's version, the schema, the facts about the machine and the image's
# trust, which do not affect the result. `image_digest` is the canonical digest if it is known.
IDENTITY = (
    "metric", "unit", "params", "recipe", "variant", "benchmark", "command", "input_hash", "image_digest", "commit",
    "dirty", "changes", "cpu", "threads", "gpu", "driver", "node", "environment", "files",
    "warm_up", "env_file",
)  # fmt: skip


class Run(NamedTuple):
    """The samples of one record; `repeats` and `doubts` as in `Record`."""

    time: str
    samples: tuple[float, ...]
    doubts: tuple[str, ...] = ()
    repeats: tuple[int, ...] = ()


@dataclass
class Group:
    """Records that agree in IDENTITY, whose values are `identity`; `image_ids` are the engines' IDs of their image."""

    identity: Mapping[str, Any]
    runs: list[Run] = field(default_factory=list)
    image_ids: set[str] = field(default_factory=set)
    repeated: int = 0
    _known: set[Run] = field(default_factory=set, repr=False)

    def add(self, run: Run) -> None:
        """Add a run unless it is a duplicate: a file may contain a record twice, as after `cat`.

        No two runs in one second have equal timings; other results may be equal.
        """
        count = len(self._known)
        self._known.add(run)
        if len(self._known) == count and len(set(run.samples)) > 1:
            self.repeated += 1
        else:
            self.runs.append(run)

    @property
    def samples(self) -> list[float]:
        """All samples in the order of measurement."""
        return [sample for run in sorted(self.runs, key=attrgetter("time")) for sample in run.samples]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def last(self) -> str:
        """The time of the latest run."""
        return max(run.time for run in self.runs)

    @property
    def doubts(self) -> list[str]:
        """Reasons not to trust some of the runs."""
        repeated = [f"repeated records count once: {self.repeated}"] if self.repeated else []
        return [*dict.fromkeys(text for run in self.runs for text in run.doubts), *repeated]


def identity(record: Record) -> str:
    """A JSON text that is equal for records which agree in all fields of IDENTITY."""
    return json.dumps(_facts(record), sort_keys=True)


def _facts(record: Record) -> dict[str, Any]:
    return {**{name: getattr(record, name) for name in IDENTITY}, "environment": without_clocks(record.environment)[0]}


def same_images(records: Sequence[Record]) -> list[Record]:
    """The records with the canonical digest as `image_digest` if it is known."""
    canonical = _canonical((record.image_digest, record.image_canonical) for record in records)
    return [
        replace(each, image_digest=canonical[each.image_digest]) if each.image_digest in canonical else each
        for each in records
    ]


def _canonical(stated: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Canonical digests by the engine's image ID; without images for which records state two."""
    digests: dict[str, set[str]] = {}
    for image_id, canonical in stated:
        digests.setdefault(image_id, set()).update({canonical} - {""})
    return {image_id: each.pop() for image_id, each in digests.items() if len(each) == 1}


def without_clocks(environment: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate clock rates, at any depth, from a program's environment.

    Clock rates vary from run to run, so no two records would agree.
    """
    others: dict[str, Any] = {}
    clocks: dict[str, Any] = {}
    for key, value in environment.items():
        if key == "clocks" and isinstance(value, dict):
            clocks |= value
        elif isinstance(value, dict):
            others[key], inner = without_clocks(value)
            clocks |= inner
        else:
            others[key] = value
    return others, clocks


def run_of(record: Record) -> Run:
    return Run(record.time, record.samples, record.doubts, record.repeats)


def groups(records: Iterable[Record]) -> list[Group]:
    """Group records that agree in IDENTITY, in order of first appearance."""
    by_id: dict[str, Group] = {}
    stated: dict[tuple[str, str], None] = {}
    for record in records:
        key = identity(record)
        if key not in by_id:
            by_id[key] = Group(_facts(record))
        by_id[key].add(run_of(record))
        stated[record.image_digest, record.image_canonical] = None
    canonical, by_identity = _canonical(stated), dict[str, Group]()
    for group in by_id.values():
        image_id = group.identity["image_digest"]
        facts = {**group.identity, "image_digest": canonical.get(image_id, image_id)}
        same = by_identity.setdefault(json.dumps(facts, sort_keys=True), Group(facts))
        same.image_ids.add(image_id)
        same.repeated += group.repeated
        for run in group.runs:
            same.add(run)
    return list(by_identity.values())


def differing(groups: Sequence[Group]) -> list[str]:
    """The fields of IDENTITY in which groups differ; for a mapping the keys, as `params.batch`."""
    fields = []
    for name in IDENTITY:
        values = [group.identity[name] for group in groups]
        if isinstance(values[0], dict):
            entries: dict[str, list[Any]] = {}
            for value in values:
                for key, own in value.items():
                    entries.setdefault(key, []).append(own)
            # In linear time: each record of a stranger may have other keys.
            apart = (key for key, own in entries.items() if len(own) < len(values) or _differ(own))
            fields += [f"{name}.{key}" for key in sorted(apart)]
        elif _differ(values):
            fields.append(name)
    return fields


def latest_alike(groups: Sequence[Group], names: Sequence[str]) -> tuple[list[Group], str]:
    """The groups that agree with the latest one in these fields, and a note on the others or ""."""
    keys = [key_of(group, names) for group in groups]
    _, latest = max((group.last, key) for group, key in zip(groups, keys, strict=True))
    alike = [group for group, key in zip(groups, keys, strict=True) if key == latest]
    if len(alike) == len(groups):
        return alike, ""
    apart = ", ".join(field for field in differing(groups) if field.partition(".")[0] in names)
    return alike, f"only the latest of {len(set(keys))} sets of unlike records, which differ in {apart}"


def has_params(params: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether records with these parameters belong to a case. Values may be written as text."""
    return all(name in params and texts(params[name]) & texts(value) for name, value in wanted.items())


def texts(value: Any) -> set[str]:
    """The spellings of a value: True is also `true`, 1.0 is also `1`."""
    if isinstance(value, str):
        return {value}
    number = isinstance(value, float) and value.is_integer()
    return {str(value), json.dumps(value), *([str(int(value))] if number else [])}


def key_of(group: Group, names: Iterable[str]) -> str:
    """A JSON text that is equal for groups which agree in these fields."""
    return json.dumps([group.identity[name] for name in names], sort_keys=True)


def _differ(values: Sequence[Any]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) > 1
