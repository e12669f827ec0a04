"""What a comparison of layers prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SHOWN = 10


def layer_lines(layers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each layer, then its first changes; `layers` are ComparedLayers as plain values."""
    for layer in layers:
        differ, times = layer["differ"], layer["times"]
        counts = f"{differ} differ, {times} other times" if differ or times else "same"
        of_files = f" of {layer['files']} files" if layer["files"] else ""
        yield f"layer {layer['number']}: {counts}{of_files}  {layer['instruction'][:60]}".rstrip()
        # The first times only after what matters more.
        for change in sorted(layer["changes"], key=lambda each: each["kind"] == "time")[:_SHOWN]:
            known = f" (known: {change['known']})" if change["known"] else ""
            yield f"  {change['kind']:<7}  {change['path']}  {change['detail']}{known}".rstrip()
        if (more := differ + times - _SHOWN) > 0:
            yield f"  and {more} more"
