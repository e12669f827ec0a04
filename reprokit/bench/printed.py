"""Read records, or the JSON lines that a benchmark printed without reprokit."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from reprokit.bench.parse import different, parse, threads_of
from reprokit.errors import UsageError, WorkFailed, unread
from reprokit.recipe.model import Parse
from reprokit.results import lines
from reprokit.results.likeness import without_clocks
from reprokit.results.record import Record
from reprokit.results.roofline import limits
from reprokit.untrusted import files
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import COMMAND_OUTPUT

OUTSIDE = "host"  # the variant of records without an image


def read(file: Path, recipe: str) -> list[Record]:
    """The records of `file`; those from a benchmark's output have no image and no input hash.

    Raises UsageError if the file cannot be read or contains neither.
    """
    try:
        with files.opened(file) as source:
            first = _first(lines.split(source, str(file)))
            source.seek(0)
            if "schema" in first:
                return [record for _, record in lines.numbered(lines.split(source, str(file)), str(file))]
            output = source.read(COMMAND_OUTPUT.most + 1)
        COMMAND_OUTPUT.check(len(output), "bytes of output", str(file))
        parsed = parse(Parse(format="records"), output.decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the records cannot be read: {unread(error)}", str(file)) from None
    except WorkFailed as error:
        raise UsageError(f"neither records nor a benchmark's output: {error.message}", str(file)) from None
    environment, clocks = without_clocks(parsed.environment)
    device = environment.get("device")
    name = device.get("name", "") if isinstance(device, dict) else ""
    return [
        Record(
            metric=each.metric,
            unit=each.unit,
            samples=each.samples,
            params=dict(each.params),
            recipe=recipe,
            variant=OUTSIDE,
            benchmark=file.stem,
            command="",
            input_hash="",
            image_digest="",
            cpu=str(environment.get("processor", "")),
            threads=threads_of(environment, 1),
            gpu="" if name == "cpu" else str(name),
            driver=str(device.get("driver") or "") if isinstance(device, dict) else "",
            reprokit="",
            time=str(first.get("time", ""))[:100].encode("utf-8", "replace").decode(),
            clocks=clocks,
            environment=environment,
            limited_by=limit,
            warnings=tuple(different(parsed.apart)),
        )
        for each, limit in zip(parsed.measurements, limits(parsed.measurements), strict=True)
    ]


def _first(lines: Iterable[bytes]) -> dict[str, Any]:
    """The first line that is a JSON object."""
    for line in chain.from_iterable(map(bytes.splitlines, lines)):
        try:
            data = parsed(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            return data
    return {}
