"""Measure peaks in a recipe's container; the roofs and points of a roofline plot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reprokit.bench import extension
from reprokit.bench.container import container_of_run, gpus_for, machine_lock
from reprokit.bench.hardware import probe
from reprokit.bench.parse import Measurement
from reprokit.bench.records import results_file
from reprokit.compat.gpu import DevicePeaks
from reprokit.container.execute import execute
from reprokit.container.launch import built_image
from reprokit.container.settings import RunOptions
from reprokit.display import notify, status
from reprokit.engine import Engine
from reprokit.errors import UsageError, WorkFailed
from reprokit.formatting import counted
from reprokit.profiling import peaks
from reprokit.profiling.peaks import MeasuredPeaks
from reprokit.recipe.find import Target
from reprokit.results import lines
from reprokit.results.likeness import groups, latest_alike
from reprokit.results.plots import Roof
from reprokit.results.roofline import RooflinePoint, points

_MOST_THREADS = 1024
# Fields that the points of one plot share.
_ALIKE = ("gpu", "threads", "driver", "node", "image_digest", "commit", "changes", "files")


def thread_counts(text: str | None) -> list[int]:
    """The numbers of `--threads`. Raises UsageError."""
    parts = text.split(",") if text else []
    if not all(part.isascii() and part.isdigit() and 1 <= int(part[:9]) <= _MOST_THREADS for part in parts):
        raise UsageError(f"--threads {text!r} is not a list of numbers", hint=f"1 to {_MOST_THREADS}: --threads 1,2,4")
    return list(dict.fromkeys(map(int, parts)))


def measure(
    engine: Engine, target: Target, gpus: str | None, counts: Sequence[int]
) -> tuple[list[MeasuredPeaks], str, str]:
    """Measure in a recipe's container; returns its peaks, its processor and its GPU.

    Raises UsageError for too many threads, and if the recipe has not been built.
    """
    built_image(engine, target)  # fail before waiting for another benchmark
    running = container_of_run(engine, target, "roofline", RunOptions(gpus=gpus_for(engine, target, gpus)))
    # Lock the whole machine: the processors are measured, too.
    with machine_lock(None, engine.host), running as container:
        ask = partial(execute, engine, container, logged=False)
        hardware = probe(ask)
        if max(counts, default=0) > hardware.threads:
            # Each thread's rate is by its own CPU time, so surplus threads would count as processors.
            problem = f"--threads {max(counts)} is more than the container's {counted(hardware.threads, 'processor')}"
            raise UsageError(problem, hint=f"1 to {hardware.threads}")
        with status(f"{target.label}: measuring the processors"):
            measured = peaks.processors(engine, container, ask, counts or sorted({1, hardware.threads}))
        if hardware.has_gpu:
            try:
                with status(f"{target.label}: measuring the GPU"):
                    measured += peaks.gpu(engine, container, ask, extension.sources())
            except WorkFailed as error:
                notify(f"the GPU was not measured: {error.message}")
        return measured, hardware.cpu, hardware.gpu


def points_of(target: Target, cpu: str, gpu: str) -> list[RooflinePoint]:
    """Points of the variant's latest results: of one image, on this GPU, or without a GPU on this processor."""
    file = results_file(target.recipe.name)
    records = lines.read(file) if file.exists() else []
    on_this_hardware = groups(
        record
        for record in records
        if record.variant == target.variant_name and (record.gpu == gpu if record.gpu else record.cpu == cpu)
    )
    if not on_this_hardware:
        return []
    alike, note = latest_alike(on_this_hardware, _ALIKE)
    if note:
        notify(f"points: {note}")
    return points(
        [Measurement(g.identity["metric"], g.identity["unit"], tuple(g.samples), g.identity["params"]) for g in alike]
    )


def roofs(sheets: Sequence[DevicePeaks], measured: Sequence[MeasuredPeaks]) -> list[Roof]:
    """The roofs of data sheets, and the measured roofs."""
    drawn = []
    for sheet in sheets:
        drawn.append(Roof(f"{sheet.name} fp32", sheet.fp32, sheet.bandwidth))
        if sheet.tensor:
            drawn.append(Roof(f"{sheet.name} tensor fp16", sheet.tensor, sheet.bandwidth))
    for device in measured:
        bandwidth = max(device.bandwidths.values(), default=0.0)
        drawn += [Roof(f"{device.where} {dtype}", peak, bandwidth) for dtype, peak in device.peaks.items() if bandwidth]
    return drawn
