"""`reprokit results roofline`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.formatting import counted
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.compat.peaks import DevicePeaks
    from reprokit.engine import Engine
    from reprokit.profiling.peaks import MeasuredPeaks
    from reprokit.results.plots import Roof
    from reprokit.results.roofline import RooflinePoint

_MOST_THREADS = 1024
# In one plot points stand beside each other, so they have these in common.
_ALIKE = ("gpu", "threads", "driver", "node", "image_digest", "commit", "changes", "files")


def roofline(
    name: Annotated[str | None, options.recipes("Measure in this recipe's container.", "[NAME[:VARIANT]]")] = None,
    device: Annotated[str | None, typer.Option(metavar="GPU", help="The data sheet of this GPU.")] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Numbers of threads; by default one and all.")
    ] = None,
    plot: options.Plot = None,
    gpus: options.Gpus = None,
    as_json: options.Json = False,
    on: options.On = None,
) -> None:
    """Show the peaks of a GPU from its data sheet, and measure those of this machine.

    Without NAME nothing is measured: the GPUs of this machine are shown, or the names of all that are known. With NAME,
    loops of multiply-adds, of dot products, of reads and of copies run in the recipe's container. The plot also has
    the points of the variant's latest results on the same hardware, where they counted their work.
    """
    from reprokit.compat.facts import bundled
    from reprokit.compat.peaks import known_peaks, peaks_of
    from reprokit.results.plots import check_suffix
    from reprokit.tables import paragraph

    if plot:
        check_suffix(plot)
    if device and not peaks_of(bundled(), device):
        known = ", ".join(dict.fromkeys(each.name for each in known_peaks(bundled())))
        raise UsageError(f"no data sheet of {device!r} is known", hint=f"known are {known}")
    counts = _threads(threads)
    measured: list[MeasuredPeaks] = []
    points: list[RooflinePoint] = []
    hardware, names = "", [device] if device else []
    if name:
        with options.engine_on(on) as engine:
            measured, hardware, gpu = _measured(engine, name, gpus, counts)
        # Several GPUs are "2x NAME, NAME".
        names += [re.sub(r"^\d+x ", "", each) for each in gpu.split(", ") if each and not device]
        points = _points(name, (hardware, gpu)) if plot or as_json else []
    elif not device:
        from reprokit.host.gpu import gpus as own_gpus

        names = list(dict.fromkeys(gpu.name for gpu in own_gpus()))
    sheets = [sheet for each in names if (sheet := peaks_of(bundled(), each))]
    listed = not name and not sheets
    if listed:
        sheets = known_peaks(bundled())
    if as_json:
        dump(_data(sheets, measured, points, hardware))
    else:
        if listed:
            devices = ", ".join(dict.fromkeys(sheet.name for sheet in sheets))
            paragraph(devices, "this machine has no GPU; --device shows the data sheet of: ", "  ")
        else:
            _print(sheets, measured, hardware)
        if not name:
            notify("nothing was measured: `reprokit results roofline NAME` measures in a recipe's container")
    if plot:
        from reprokit.results.plots import draw_roofline

        draw_roofline(_roofs(sheets, measured), points, plot)
        notify(f"drawn: {plot}, with {len(points)} points of results")


def _threads(text: str | None) -> list[int]:
    parts = text.split(",") if text else []
    if not all(part.isascii() and part.isdigit() and 1 <= int(part[:9]) <= _MOST_THREADS for part in parts):
        raise UsageError(f"--threads {text!r} is not a list of numbers", hint=f"1 to {_MOST_THREADS}: --threads 1,2,4")
    return list(dict.fromkeys(map(int, parts)))


def _measured(engine: Engine, name: str, gpus: str | None, counts: list[int]) -> tuple[list[MeasuredPeaks], str, str]:
    """Returns what was measured in a recipe's container: its peaks, its processor and its GPU.

    Raises UsageError for too many threads, and where the recipe has not been built.
    """
    from reprokit.bench import extension
    from reprokit.bench.container import container_of_run, gpus_for, machine_lock
    from reprokit.bench.hardware import probe
    from reprokit.container.execute import execute
    from reprokit.container.launch import built_image
    from reprokit.container.settings import RunOptions
    from reprokit.display import status
    from reprokit.errors import WorkFailed
    from reprokit.profiling.peaks import gpu, processors
    from reprokit.recipe.find import target

    recipe = target(name)
    built_image(engine, recipe)  # a recipe that has not been built waits for no other benchmark
    run_options = RunOptions(gpus=gpus_for(engine, recipe, gpus))
    running = container_of_run(engine, recipe, "roofline", run_options)
    # Not only on the GPUs: the processors are measured, too.
    with machine_lock(None, engine.host), running as container:
        ask = partial(execute, engine, container, logged=False)
        hardware = probe(ask)
        if max(counts, default=0) > hardware.threads:
            # Each thread's rate is by its own CPU time, so that more threads would add processors that do not exist.
            problem = f"--threads {max(counts)} is more than the container's {counted(hardware.threads, 'processor')}"
            raise UsageError(problem, hint=f"1 to {hardware.threads}")
        with status(f"{recipe.label}: measuring the processors"):
            found = processors(engine, container, ask, counts or sorted({1, hardware.threads}))
        if hardware.has_gpu:
            try:
                with status(f"{recipe.label}: measuring the GPU"):
                    found += gpu(engine, container, ask, extension.sources())
            except WorkFailed as error:
                notify(f"the GPU was not measured: {error.message}")
        return found, hardware.cpu, hardware.gpu


def _points(name: str, hardware: Sequence[str]) -> list[RooflinePoint]:
    """Points of the variant's latest results, of one image, on this processor without a GPU, or on this GPU."""
    from reprokit.bench.parse import Measurement
    from reprokit.display import notify
    from reprokit.recipe.find import target
    from reprokit.results import lines
    from reprokit.results.likeness import groups, latest_alike
    from reprokit.results.roofline import points

    asked = target(name)
    file = Path(lines.FOLDER) / f"{asked.recipe.name}.jsonl"
    cpu, gpu = hardware
    known = lines.read(file) if file.exists() else []
    found = groups(
        each
        for each in known
        if each.variant == asked.variant_name and (each.gpu == gpu if each.gpu else each.cpu == cpu)
    )
    if not found:
        return []
    alike, note = latest_alike(found, _ALIKE)
    if note:
        notify(f"points: {note}")
    facts = [(group.identity, tuple(group.samples)) for group in alike]
    return points([Measurement(its["metric"], its["unit"], samples, its["params"]) for its, samples in facts])


def _roofs(sheets: Sequence[DevicePeaks], measured: Sequence[MeasuredPeaks]) -> list[Roof]:
    from reprokit.results.plots import Roof

    found = []
    for sheet in sheets:
        found.append(Roof(f"{sheet.name} fp32", sheet.fp32, sheet.bandwidth))
        if sheet.tensor:
            found.append(Roof(f"{sheet.name} tensor fp16", sheet.tensor, sheet.bandwidth))
    for each in measured:
        bandwidth = max(each.bandwidths.values(), default=0.0)
        where = _where(each)
        found += [Roof(f"{where} {dtype}", peak, bandwidth) for dtype, peak in each.peaks.items() if bandwidth]
    return found


def _where(each: MeasuredPeaks) -> str:
    return counted(each.threads, "thread") if each.threads else "GPU"


def _data(
    sheets: Sequence[DevicePeaks], measured: Sequence[MeasuredPeaks], points: Sequence[RooflinePoint], hardware: str
) -> dict[str, object]:
    return {
        "data_sheets": [{**vars(sheet), "sources": _cited(sheet)} for sheet in sheets],
        "processor": hardware,
        "measured": [each.model_dump() for each in measured],
        "points": [vars(point) for point in points],
    }


def _cited(sheet: DevicePeaks) -> list[str]:
    from reprokit.compat.facts import bundled

    return [bundled().cite(source) for source in sheet.sources]


def _print(sheets: Sequence[DevicePeaks], measured: Sequence[MeasuredPeaks], hardware: str) -> None:
    from reprokit.tables import paragraph, table

    if sheets:
        rows = [
            [s.name, f"{s.fp32 / 1e3:.1f}", f"{s.tensor / 1e3:.0f}" if s.tensor else "", f"{s.bandwidth:.0f}", s.how]
            for s in sheets
        ]
        table(["data sheet", "fp32 TFLOP/s", "tensor fp16 TFLOP/s", "GB/s", "from"], rows, words=(0, 4))
        for source in dict.fromkeys(text for sheet in sheets for text in _cited(sheet)):
            paragraph(f"source: {source}")
    if measured:
        echo(f"measured: {hardware}")
        dtypes = list(dict.fromkeys(dtype for each in measured for dtype in each.peaks))
        kinds = list(dict.fromkeys(kind for each in measured for kind in each.bandwidths))
        cells = [
            [
                _where(each),
                *(_plain(each.peaks.get(dtype)) for dtype in dtypes),
                *(_plain(each.bandwidths.get(kind)) for kind in kinds),
                ", ".join(dict.fromkeys(each.how.values())),
            ]
            for each in measured
        ]
        header = ["", *(f"{dtype} GFLOP/s" for dtype in dtypes), *(f"{kind} GB/s" for kind in kinds), "loops"]
        table(header, cells, words=(0, len(header) - 1))


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
