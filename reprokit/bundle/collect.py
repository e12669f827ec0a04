"""Images taken out of an engine in one pass: every layer that is wanted goes to a sink as a compressed blob."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reprokit.bundle.model import Descriptor, Image, Layer
from reprokit.bundle.pack import Packed, pack
from reprokit.bundle.saved import Saved, SavedImage, digest_in
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError

Watch = Callable[[int, int], None]


class Blob(Protocol):
    """A blob that is being written: after the last `write` either `keep` or `drop` is called."""

    def write(self, data: bytes) -> None: ...
    def keep(self, diff_id: str, blob: Descriptor) -> None: ...
    def drop(self) -> None: ...


class Sink(Protocol):
    """Where blobs go. `held` is the blob of a layer that is there already; one blob is written at a time."""

    def held(self, diff_id: str) -> Descriptor | None: ...
    def begin(self) -> Blob: ...


def collect(
    engine: Engine,
    references: Sequence[str],
    sink: Sink,
    without: Collection[str] = frozenset(),
    watch: Watch = lambda done, total: None,
) -> list[Image]:
    """The images of these names, in their order, out of one `save`.

    Layers whose diff ids are in `without` are left out. `watch` is told uncompressed bytes, done and about in all.
    Raises UsageError where an image is missing, EngineError where the engine gives less than it says it has; whatever
    the sink raises.
    """
    wanted = [_wanted(engine, reference) for reference in references]
    taking = _Taking(sink, frozenset(without), watch, sum({each.id: each.size for each in wanted}.values()))
    known = {diff_id for each in wanted for diff_id in each.layers}
    with contextlib.closing(engine.save_all([each.name for each in wanted])) as blocks:
        saved = Saved(blocks)
        for layer in saved.layers():
            promised = digest_in(layer.path)
            taking.take(layer.path, layer.blocks, promised if promised in known else None)
        images = saved.images()
    return [_image(each, images, taking.layers) for each in wanted]


@dataclass(frozen=True)
class _Wanted:
    name: str
    id: str
    size: int
    layers: tuple[str, ...]


def _wanted(engine: Engine, reference: str) -> _Wanted:
    described = engine.image(reference)
    if described is None:
        raise UsageError("the engine has no image of this name", reference, "`reprokit build` makes a recipe's image")
    layers = (described.get("RootFS") or {}).get("Layers") or ()
    tags = described.get("RepoTags") or []
    asked = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
    named = [tag for tag in tags if _plain(tag) == _plain(asked)] or tags
    if not named:
        raise UsageError("the image has no name to load it under", reference, "give it one with `docker tag`")
    return _Wanted(_plain(named[0]), described["Id"], described.get("Size", 0), tuple(layers))


@dataclass
class _Taking:
    sink: Sink
    without: frozenset[str]
    watch: Watch
    total: int
    done: int = 0
    layers: dict[str, Layer] = field(default_factory=dict)

    def take(self, path: str, blocks: Iterator[bytes], promised: str | None) -> None:
        """`promised` is the layer's diff id where the archive tells it before its content."""
        if promised and (promised in self.without or self.sink.held(promised)):
            packed = pack(self._watched(blocks), None)
            if packed.diff_id != promised:
                raise EngineError("the engine's layer is damaged", promised, "build the image anew")
            self._note(path, packed, self.sink.held(promised))
            return
        blob = self.sink.begin()
        try:
            packed = pack(self._watched(blocks), blob.write)
        except BaseException:
            blob.drop()
            raise
        held = self.sink.held(packed.diff_id)
        if held or packed.diff_id in self.without:
            blob.drop()
        else:
            assert packed.blob
            blob.keep(packed.diff_id, packed.blob)
            held = packed.blob
        self._note(path, packed, held)

    def _note(self, path: str, packed: Packed, blob: Descriptor | None) -> None:
        self.layers[path] = Layer(packed.diff_id, packed.size, None if packed.diff_id in self.without else blob)

    def _watched(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield block
            self.done += len(block)
            self.watch(self.done, max(self.total, self.done))


def _image(wanted: _Wanted, images: Sequence[SavedImage], layers: dict[str, Layer]) -> Image:
    for image in images:
        found = tuple(layers[path] for path in image.layers)
        if tuple(layer.diff_id for layer in found) == wanted.layers and _is(wanted, image):
            return Image(wanted.name, image.config, found)
    raise EngineError(
        "the engine's archive does not hold the image that the engine describes", wanted.name, "build the image anew"
    )


def _is(wanted: _Wanted, image: SavedImage) -> bool:
    return _plain(wanted.name) in map(_plain, image.names)


def _plain(name: str) -> str:
    """Engines write the same name in several lengths."""
    for prefix in ("docker.io/", "library/", "localhost/"):
        name = name.removeprefix(prefix)
    return name
