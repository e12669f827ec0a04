"""Compare two layers file by file and two images by their settings, and format the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from reprokit.bundle.compare import differences
from reprokit.oci.canonical import NOTES, OWN_LABELS
from reprokit.oci.effect import Effect
from reprokit.oci.entries import SEEN, LayerEntry, content_of

Kind = Literal["time", "content", "removed", "added"]
Look = Callable[[Iterator[bytes], Iterator[bytes]], str]
# The changes kept for one layer; all are counted.
_KEPT = 1000
_SHOWN = 200
_PRINTED = 10  # changes of a layer
_BYTES = 16


@dataclass(frozen=True)
class FileChange:
    """A path that differs between two layers. `time`: only times or names of owners, which no container reads.

    `detail` is the first difference, `known` the reason why this path is known to differ, or empty.
    """

    path: str
    kind: Kind
    detail: str = ""
    known: str = ""


@dataclass
class ComparedLayer:
    """Layer `number` from 1. `files` counts the entries of both, `same` those that are equal in everything."""

    number: int
    instruction: str
    files: int = 0
    same: int = 0
    times: int = 0
    differ: int = 0
    changes: list[FileChange] = field(default_factory=list)

    def add(self, change: FileChange) -> None:
        if change.kind == "time":
            self.times += 1
        else:
            self.differ += 1
        if len(self.changes) < _KEPT:
            self.changes.append(change)


def compare_layers(
    layer: ComparedLayer,
    pair: tuple[Effect, Effect],
    files: tuple[Path, Path],
    reasons: Mapping[str, str],
    look: Look | None = None,
) -> None:
    """Compare the effects of two uncompressed layers. `reasons` explain patterns of paths that differ between builds.

    `look` gets the contents of the first pair of files that differ, and returns more about them.
    """
    old, new = pair
    with files[0].open("rb") as before, files[1].open("rb") as after:
        paths = sorted({path for side in pair for path in (*side.made, *side.times, *side.removed)})
        layer.files = len(paths)
        for path in paths:
            left, right = old.entry(path), new.entry(path)
            if left and right and left.seen == right.seen:
                if left.unseen == right.unseen:
                    layer.same += 1
                else:
                    layer.add(FileChange(path, "time", _unseen(left, right)))
                continue
            if path in old.removed & new.removed:
                layer.same += 1
                continue
            if not any(path in side.made or path in side.removed for side in pair):
                layer.add(FileChange(path, "time"))
                continue
            reason = next((why for pattern, why in reasons.items() if fnmatchcase(path, pattern)), "")
            if left is None or right is None:
                kind: Kind = "removed" if left or path in new.removed else "added"
                layer.add(FileChange(path, kind, "", reason))
                continue
            detail = _seen(left, right)
            if left.seen[-1] != right.seen[-1] and min(left.offset, right.offset) >= 0:
                contents = (content_of(before, left), content_of(after, right))
                detail = "; ".join(filter(None, (_first(*contents), detail)))
                if look and not layer.differ:
                    detail += look(content_of(before, left), content_of(after, right))
            layer.add(FileChange(path, "content", detail, reason))


def _seen(left: LayerEntry, right: LayerEntry) -> str:
    rows = zip(SEEN[:-1], left.seen, right.seen, strict=False)
    return "; ".join(f"{name} {a[:_SHOWN] or 'none'} -> {b[:_SHOWN] or 'none'}" for name, a, b in rows if a != b)


def _unseen(left: LayerEntry, right: LayerEntry) -> str:
    names = ("time", "user", "group")
    pairs = zip(names, left.unseen, right.unseen, strict=True)
    return "; ".join(f"{name} {str(a)[:_SHOWN]} -> {str(b)[:_SHOWN]}" for name, a, b in pairs if a != b)


def _first(before: Iterator[bytes], after: Iterator[bytes]) -> str:
    """The position at which two contents begin to differ, with the bytes from there on."""
    at = 0
    for left, right in zip_longest(before, after, fillvalue=b""):
        if left != right:
            bytes_of_both = enumerate(zip(left, right, strict=False))
            inside = next((i for i, (a, b) in bytes_of_both if a != b), min(len(left), len(right)))
            shown = (part[inside : inside + _BYTES].hex() or "end" for part in (left, right))
            return f"byte {at + inside}: {' -> '.join(shown)}"
        at += len(left)
    return ""


def settings(config: Mapping[str, Any]) -> dict[str, str]:
    """An image's settings for its containers, with ENV and labels one by one."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if key == "Env" and isinstance(value, list):
            for name, _, text in (str(variable).partition("=") for variable in value):
                # All values of a repeated name count: the runtime decides which one a process gets.
                flat[f"env {name}"] = f"{flat[f'env {name}']}, {text}" if f"env {name}" in flat else text
        elif key == "Labels" and isinstance(value, dict):
            flat |= {f"label {name}": str(text) for name, text in value.items() if name not in OWN_LABELS}
        elif value and key not in NOTES:
            flat[key] = json.dumps(value, sort_keys=True)
    return flat


def changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Settings that differ, with both values, empty if there is none."""
    return differences(settings(before), settings(after))[:_KEPT]


def layer_lines(layers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each layer, then its first changes; `layers` are ComparedLayers as plain values."""
    for layer in layers:
        differ, times = layer["differ"], layer["times"]
        counts = f"{differ} differ, {times} other times" if differ or times else "same"
        of_files = f" of {layer['files']} files" if layer["files"] else ""
        yield f"layer {layer['number']}: {counts}{of_files}  {layer['instruction'][:60]}".rstrip()
        # Changes of times come last.
        for change in sorted(layer["changes"], key=lambda change: change["kind"] == "time")[:_PRINTED]:
            reason = f" (known: {change['known']})" if change["known"] else ""
            yield f"  {change['kind']:<7}  {change['path']}  {change['detail']}{reason}".rstrip()
        if (more := differ + times - _PRINTED) > 0:
            yield f"  and {more} more"
