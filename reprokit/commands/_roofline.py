"""`reprokit results roofline`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.compat.gpu import DevicePeaks
    from reprokit.profiling.peaks import MeasuredPeaks
    from reprokit.results.roofline import RooflinePoint


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
    from reprokit.compat.gpu import known_peaks, peaks_of
    from reprokit.profiling.roofline import measure, points_of, roofs, thread_counts
    from reprokit.results.plots import check_suffix
    from reprokit.tables import paragraph

    if plot:
        check_suffix(plot)
    if device and not peaks_of(bundled(), device):
        every = ", ".join(dict.fromkeys(model.name for model in known_peaks(bundled())))
        raise UsageError(f"no data sheet of {device!r} is known", hint=f"known are {every}")
    counts = thread_counts(threads)
    measured: list[MeasuredPeaks] = []
    points: list[RooflinePoint] = []
    hardware, names = "", [device] if device else []
    if name:
        from reprokit.recipe.find import target

        recipe = target(name)
        with options.engine_on(on) as engine:
            measured, hardware, gpu = measure(engine, recipe, gpus, counts)
        # Several GPUs are "2x NAME, NAME".
        names += [re.sub(r"^\d+x ", "", model) for model in gpu.split(", ") if model and not device]
        points = points_of(recipe, hardware, gpu) if plot or as_json else []
    elif not device:
        from reprokit.host.gpu import gpus as own_gpus

        names = list(dict.fromkeys(gpu.name for gpu in own_gpus()))
    sheets = [sheet for model in names if (sheet := peaks_of(bundled(), model))]
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

        draw_roofline(roofs(sheets, measured), points, plot)
        notify(f"drawn: {plot}, with {len(points)} points of results")


def _data(
    sheets: Sequence[DevicePeaks], measured: Sequence[MeasuredPeaks], points: Sequence[RooflinePoint], hardware: str
) -> dict[str, object]:
    return {
        "data_sheets": [{**vars(sheet), "sources": _cited(sheet)} for sheet in sheets],
        "processor": hardware,
        "measured": [device.model_dump() for device in measured],
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
        dtypes = list(dict.fromkeys(dtype for device in measured for dtype in device.peaks))
        accesses = list(dict.fromkeys(kind for device in measured for kind in device.bandwidths))
        cells = [
            [
                device.where,
                *(_plain(device.peaks.get(dtype)) for dtype in dtypes),
                *(_plain(device.bandwidths.get(kind)) for kind in accesses),
                ", ".join(dict.fromkeys(device.how.values())),
            ]
            for device in measured
        ]
        header = ["", *(f"{dtype} GFLOP/s" for dtype in dtypes), *(f"{kind} GB/s" for kind in accesses), "loops"]
        table(header, cells, words=(0, len(header) - 1))


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
