"""Sets of records as a user writes them: `1f2e3a`, `node=alpha`, `variant=cuda,param.impl=ours`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from reprokit.errors import UsageError
from reprokit.recipe.spelling import nearest
from reprokit.results.likeness import Group, has_params, identity, same_images
from reprokit.results.record import Record

_FIELDS = {
    "commit": "commit", "image": "image_digest", "inputs": "input_hash", "node": "node", "recipe": "recipe",
    "variant": "variant", "benchmark": "benchmark", "metric": "metric", "cpu": "cpu", "gpu": "gpu", "driver": "driver",
}  # fmt: skip
_PREFIXED = ("commit", "image_digest", "input_hash")
_PARAM = "param."
_WORDS = ("commit", "image_digest", "input_hash", "node", "variant")
_FEWEST = 4  # characters of a hash


@dataclass(frozen=True)
class Selection:
    """Fields of records, or `params.NAME`, with the value or the prefix of a hash that each must have."""

    terms: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> set[str]:
        return {field for field, _ in self.terms}

    def groups(self, groups: Iterable[Group]) -> list[Group]:
        return [group for group in groups if all(_has(group, field, value) for field, value in self.terms)]


def selection(text: str, groups: Iterable[Group]) -> Selection:
    """Read `FIELD=VALUE,...`; a single word is the prefix of a commit, image or input hash, a node or a variant.

    Raises UsageError if a field is unknown, or none of the `groups` has such a word.
    """
    terms = []
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator:
            terms.append((_field_of(part, groups), part))
        elif name.startswith(_PARAM):
            terms.append((f"params.{name.removeprefix(_PARAM)}", value))
        elif name in _FIELDS:
            terms.append((_FIELDS[name], value))
        else:
            fields = ", ".join((*_FIELDS, "param.NAME"))
            raise UsageError(f"no such field of records: {name}{nearest(name, _FIELDS)}", text, f"fields are {fields}")
    return Selection(tuple(terms))


def _field_of(word: str, groups: Iterable[Group]) -> str:
    fields = {field for field in _WORDS for group in groups if _has(group, field, word)}
    if not fields:
        raise UsageError(
            f"no record has the commit, image, inputs, node or variant {word!r}",
            hint="`reprokit results list` shows what there is; other sets are written FIELD=VALUE",
        )
    if len(fields) > 1:
        short = [name for name, field in _FIELDS.items() if field in fields]
        raise UsageError(f"{word!r} can mean {' or '.join(short)}", hint=f"write for example {short[0]}={word}")
    return fields.pop()


def _has(group: Group, field: str, value: str) -> bool:
    if field.startswith("params."):
        return has_params(group.identity["params"], {field.partition(".")[2]: value})
    content = str(group.identity[field])
    if field in _PREFIXED:
        short = value.removeprefix("sha256:")
        digests = {content, *(group.image_ids if field == "image_digest" else ())}
        return len(short) >= _FEWEST and any(d.removeprefix("sha256:").startswith(short) for d in digests)
    return content == value


def old(records: Sequence[Record], before: str | None, last: int | None) -> list[Record]:
    """The records from before the day `before`, or all but the `last` records of each case. Raises UsageError."""
    if before is not None:
        try:
            day = date.fromisoformat(before).isoformat()
        except ValueError:
            raise UsageError(f"not a day: {before}", "--before", "write it as 2026-01-05") from None
        return [record for record in records if record.time < day]
    counts: dict[str, int] = {}
    old_records = []
    pairs = reversed([*zip(records, same_images(records), strict=True)])
    for record, same in sorted(pairs, key=lambda pair: pair[0].time, reverse=True):
        key = identity(same)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > (last or 0):
            old_records.append(record)
    return old_records
