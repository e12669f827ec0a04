"""Parse the output of profilers into summaries. Pure; the text comes from a container."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from reprokit.profiling.model import HotSpot, Summary
from reprokit.untrusted.documents import understood, validated
from reprokit.untrusted.limits import PROFILE_LINES

_MOST = 200
_MOST_COLUMNS = 10_000  # ncu has up to 2000
_LINE = re.compile(r"[^\r\n]+")
# Times of Nsight's tables are in the unit of their header, by default nanoseconds.
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1}
# Metrics of Nsight Compute's raw page, by the field of a hot spot.
_DURATION = "gpu__time_duration.sum"
_METRICS = {
    "registers": "launch__registers_per_thread",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
}


def reduced(text: str) -> Summary:
    """The document that `reduce.py` prints. Raises SourceError."""
    with understood("the profile's summary"):
        return validated(Summary, text)


def nsys(text: str) -> Summary:
    """A table of `nsys stats --format csv`: kernels, with their launch configurations if the report has them.

    Columns as in the user guide of Nsight Systems, "Report scripts": `cuda_gpu_kern_gb_sum`, `cuda_gpu_kern_sum`.
    """
    with understood("the output of nsys stats"):
        return _summary(map(_kernel, _table(text, "Name")))


def _kernel(row: Mapping[str, str]) -> HotSpot:
    time = next((name for name in row if name.startswith("Total Time")), None)
    if time is None:
        raise ValueError("its table has no column Total Time")
    unit = re.search(r"\((\w+)\)", time)
    return HotSpot(
        kind="gpu",
        name=row["Name"],
        count=_whole(row.get("Instances", "")),
        seconds=_number(row[time]) * _UNITS[unit[1] if unit else "ns"],
        grid=_sizes(row.get("GridXYZ", "")),
        block=_sizes(row.get("BlockXYZ", "")),
    )


def ncu(text: str) -> Summary:
    """The raw page of `ncu --csv`: a launch a line, and the metrics' units in the line below the header.

    As in "Nsight Compute CLI", "Page and print options". Launches of one kernel and configuration are one row,
    with time-weighted means.
    """
    with understood("the output of ncu"):
        lines = _table(text, "Kernel Name")
        first = list(islice(lines, 1))
        units = first.pop() if first and not first[0].get("ID") else {}
        scale = _UNITS[units.get(_DURATION) or "ns"]
        launches: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for line in chain(first, lines):
            key = (line["Kernel Name"], line.get("Grid Size", ""), line.get("Block Size", ""))
            launch: dict[str, Any] = {"seconds": scale * _number(line[_DURATION])}
            launch |= {field: _number(line[metric]) for field, metric in _METRICS.items() if line.get(metric)}
            launches.setdefault(key, []).append(launch)
        return _summary(_together(key, group) for key, group in launches.items())


def _together(key: tuple[str, ...], launches: Sequence[Mapping[str, float]]) -> HotSpot:
    name, grid, block = key
    seconds = sum(launch["seconds"] for launch in launches)
    fields: dict[str, Any] = {}
    for field in _METRICS:
        measured = [launch for launch in launches if field in launch]
        weight = sum(launch["seconds"] for launch in measured)
        if weight:
            mean = sum(launch[field] * launch["seconds"] for launch in measured) / weight
            fields[field] = round(mean) if field == "registers" else mean
    fields |= {"grid": _sizes(grid), "block": _sizes(block)}
    return HotSpot(kind="gpu", name=name, count=len(launches), seconds=seconds, **fields)


def perf(text: str) -> Summary:
    """A table of `perf report --stdio -F overhead,sample,dso,sym -t '|'`."""
    with understood("the output of perf report"):
        # perf prints the most expensive first.
        return Summary(rows=tuple(islice(_symbols(text), _MOST)))


def _symbols(text: str) -> Iterator[HotSpot]:
    for line in _lines(text):
        cells = [cell.strip() for cell in line.split("|", 3)]
        if line.startswith("#") or len(cells) != 4:
            continue
        share, samples, shared_object, symbol = cells
        name = f"{re.sub(r'^.[.k]. ', '', symbol)} ({shared_object})"
        yield HotSpot(kind="cpu", name=name, count=int(samples), share=float(share.removesuffix("%")))


def _summary(rows: Iterable[HotSpot]) -> Summary:
    kept: list[HotSpot] = []
    total = 0.0
    for row in rows:
        total += row.seconds or 0.0
        kept.append(row)
        if len(kept) == 2 * _MOST:
            kept = _first(kept)
    return Summary(rows=tuple(_first(kept)), totals={"gpu": total})


def _first(rows: list[HotSpot]) -> list[HotSpot]:
    return sorted(rows, key=lambda row: -(row.seconds or 0.0))[:_MOST]


def _table(text: str, column: str) -> Iterator[dict[str, str]]:
    """The rows of the CSV table with this column; lines before the table are skipped."""
    header: list[str] = []
    for line in _lines(text):
        if line.count(",") >= _MOST_COLUMNS:
            raise ValueError(f"a line has more than {_MOST_COLUMNS} columns")
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error as error:
            raise ValueError(str(error)) from None
        if not header:
            header = cells if column in cells and len(cells) > 2 else []
        elif len(cells) == len(header):
            yield dict(zip(header, cells, strict=True))


def _lines(text: str) -> Iterator[str]:
    """The lines that are not empty. Raises UsageError for more than the limit."""
    most = PROFILE_LINES.most
    for number, match in enumerate(_LINE.finditer(text), 1):
        if number > most:
            PROFILE_LINES.check(number, "lines in a profiler's table")
        yield match[0]


def _number(text: str) -> float:
    number = float(text.replace(",", ""))
    if not 0 <= number < 1e18:
        raise ValueError(f"{number} cannot be measured")
    return number


def _whole(text: str) -> int | None:
    return int(text.replace(",", "")) if text else None


def _sizes(text: str) -> tuple[int, ...]:
    """`(4096, 1, 1)` or `4096    1    1`."""
    return tuple(int(number) for number in re.findall(r"\d{1,19}", text)[:3])
