"""Progress and notices on standard error, which verbs share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reprokit.display import ClockDisplay, notify
from reprokit.untrusted.text import console

if TYPE_CHECKING:
    from reprokit.engine import Engine
    from reprokit.image.build import BuildResult
    from reprokit.recipe.find import Target
    from reprokit.supply.locked_input import LockedInput
    from reprokit.supply.store import Store

_LINE_EVERY_S = 5.0


@contextmanager
def progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for bytes done and total: it shows a bar, or without a terminal a line every few seconds."""
    from reprokit.formatting import size

    if not sys.stderr.isatty():
        last = [time.monotonic()]

        def line(done: int, total: int) -> None:
            if time.monotonic() - last[0] > _LINE_EVERY_S:
                last[0] = time.monotonic()
                notify(f"{text}: {size(done)} of {size(total)}")

        yield line
        return
    from rich import progress as rich

    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.DownloadColumn())
    rate = (rich.TransferSpeedColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, *rate, console=console(sys.stderr), transient=True) as shown:
        task = shown.add_task(text, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@contextmanager
def status(text: str, expected_s: float = 0.0) -> Iterator[None]:
    """Show `text` with a clock and, if known, how long the work will take; without a terminal as a plain line."""
    with ClockDisplay(sys.stderr, text, expected_s) as shown:
        if not shown.width:
            notify(text)
        yield


def fetched(inputs: Sequence[LockedInput]) -> Store:
    """The store, with these files in it."""
    from reprokit.image.lock.supplies import Supplier
    from reprokit.supply.fetch.display import FetchDisplay
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    store = Store()
    with FetchDisplay(sys.stderr) as shown:
        Supplier(store, Mirrors(store), shown.on_progress).files(list(inputs))
    return store


def built(engine: Engine, target: Target) -> BuildResult:
    """The target's image, built where it is missing or its inputs have changed.

    An unverified image is used with a notice. Raises WorkFailed where `check` finds errors, unless the present image,
    built here or trusted, was built with `--force`.
    """
    from reprokit.engine import labels_of
    from reprokit.image import trust
    from reprokit.image.build import build
    from reprokit.image.labels import ImageLabels, image_name
    from reprokit.image.lock.fit import errors_of
    from reprokit.image.progress import BuildDisplay
    from reprokit.image.run import BuildOptions

    present = engine.image(image_name(target)) or {}
    force = trust.known(present.get("Id", "")) and ImageLabels.read(labels_of(present)).forced
    forced = errors_of(target, force)
    with BuildDisplay(sys.stderr) as shown:
        image = build(engine, target, BuildOptions(forced=forced, unverified=True), shown.progress, shown.traffic)
    if notice := trust.notice(image.image_id, target.label):
        notify(notice)
    return image


def sent(engine: Engine, target: Target) -> BuildResult:
    """The target's image on a node, which reprokit does not build there. Raises UsageError where it has none."""
    from reprokit.container.launch import built_image
    from reprokit.engine import labels_of
    from reprokit.image import trust
    from reprokit.image.build import BuildResult
    from reprokit.image.labels import ImageLabels, image_name

    image = built_image(engine, target)
    if notice := trust.notice(image["Id"], target.label, engine.host.name):
        notify(notice)
    inputs = ImageLabels.read(labels_of(image)).inputs
    return BuildResult(image_name(target), image["Id"], inputs, False, 0.0, state=trust.state(image["Id"]))
