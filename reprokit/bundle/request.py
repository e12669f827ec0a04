"""What one `reprokit export` is to do, and its doing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from reprokit.bundle import leave
from reprokit.bundle.collect import Wanted, Watch
from reprokit.bundle.container import snapshot
from reprokit.bundle.formats import FORMATS
from reprokit.bundle.model import Described
from reprokit.bundle.sift import CACHES, Sifted
from reprokit.bundle.subjects import resolve
from reprokit.bundle.write import Changed, Extras
from reprokit.engine import LABEL, Engine
from reprokit.errors import UsageError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """The arguments, as `reprokit export --help` explains them."""

    names: tuple[str, ...] = ()
    container: str = ""
    exclude: tuple[str, ...] = ()
    since: tuple[Path, ...] = ()
    inventories: tuple[Path, ...] = ()
    nodes: tuple[str, ...] = ()
    workspace: bool = False
    store: bool = False
    key: Path | None = None
    form: str = "rkit"

    def check(self, out: Path) -> None:
        """Raises UsageError where arguments contradict each other."""
        if bool(self.names) == bool(self.container):
            raise UsageError("name images, or one --container", hint="see `reprokit export --help`")
        if self.exclude and not self.container:
            raise UsageError("--exclude leaves files of a --container out; an image's layers stay as they are")
        if self.form not in FORMATS:
            raise UsageError(f"there is no format {self.form!r}", hint=f"formats: {', '.join(FORMATS)}")
        if self.form != "rkit" and (self.key or self.workspace or self.store or self._delta):
            raise UsageError(f"--format {self.form} holds whole images and nothing else", hint="leave out --format")
        if self.form == "squashfs" and len(self.names) > 1:
            raise UsageError("a squashfs is one file system", hint="export one image at a time")
        if any(old.resolve() == out.resolve() for old in self.since):
            raise UsageError("a bundle cannot take the place of the one that it leaves out", str(out))

    @property
    def _delta(self) -> bool:
        return bool(self.since or self.inventories or self.nodes)


@dataclass(frozen=True)
class Result:
    """What was written: `size` in bytes, the diff ids of `absent` layers, and what was seen in a container."""

    size: int
    images: Sequence[Described]
    absent: Sequence[str] = ()
    largest: Sequence[tuple[str, int]] = ()
    files_left_out: int = 0
    bytes_left_out: int = 0


def run(engine: Engine, request: Request, out: Path, say: Say, watch: Watch) -> Result:
    """Raises what `reprokit.errors` has for every way in which this can fail; `out` is then as it was."""
    with _subjects(engine, request, say) as (wanted, changed, sifted):
        there = chain(
            *map(leave.of_bundle, request.since),
            *map(leave.of_inventory, request.inventories),
            *map(leave.of_node, request.nodes),
        )
        without = leave.left_out(wanted, there)
        written = FORMATS[request.form](engine, wanted, out, without, _extras(request, wanted), changed, say, watch)
        return Result(
            size=_size(out),
            images=written.images,
            absent=written.absent,
            largest=sifted.largest,
            files_left_out=len(sifted.left_out),
            bytes_left_out=sifted.left_out.total(),
        )


@contextlib.contextmanager
def _subjects(engine: Engine, request: Request, say: Say) -> Iterator[tuple[list[Wanted], Changed | None, Sifted]]:
    if not request.container:
        yield resolve(engine, request.names), None, Sifted()
        return
    with snapshot(engine, request.container, (*CACHES, *request.exclude), say) as found:
        yield [found.wanted], found.changed, found.sifted


def _extras(request: Request, wanted: Sequence[Wanted]) -> Extras:
    recipes = [each.labels for each in wanted if each.labels.get(f"{LABEL}.recipe")]
    if (request.workspace or request.store) and not recipes:
        raise UsageError("none of these images is of a recipe: there is no workspace and no lock to take along")
    names = dict.fromkeys(labels[f"{LABEL}.recipe"] for labels in recipes)
    targets = [f"{labels[f'{LABEL}.recipe']}:{labels.get(f'{LABEL}.variant', '')}" for labels in recipes]
    return Extras(
        workspaces=tuple(names) if request.workspace else (),
        store=tuple(targets) if request.store else (),
        key=request.key,
    )


def _size(out: Path) -> int:
    if out.is_dir():
        return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return out.stat().st_size
