"""Images taken out of an engine in one pass: every layer that is wanted goes to a sink as a compressed blob."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reprokit.bundle import early
from reprokit.bundle.foretell import Foretold
from reprokit.bundle.model import Descriptor, Image, Layer
from reprokit.bundle.pack import Packed, Write, pack
from reprokit.bundle.saved import Saved, SavedImage, SavedLayer
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError

Watch = Callable[[int, int], None]
Pack = Callable[[Iterator[bytes], Write], Packed]
Edit = Callable[[Iterator[bytes]], Iterator[bytes]]


class Blob(Protocol):
    """A blob that is being written: after the last `write` either `keep` or `drop` is called."""

    def write(self, data: bytes) -> None: ...
    def keep(self, diff_id: str, blob: Descriptor) -> None: ...
    def drop(self) -> None: ...


class Sink(Protocol):
    """Where blobs go. `held` is the blob of a layer that is there already; one blob is written at a time."""

    def held(self, diff_id: str) -> Descriptor | None: ...
    def begin(self) -> Blob: ...


@dataclass(frozen=True)
class Wanted:
    """An image as the engine describes it: `size` in bytes, `layers` are diff ids from the base up."""

    name: str
    id: str
    size: int
    layers: tuple[str, ...]
    labels: Mapping[str, str]


def collect(
    engine: Engine,
    references: Sequence[str],
    sink: Sink,
    without: Collection[str] = frozenset(),
    watch: Watch = lambda done, total: None,
    packing: Pack = pack,
    edits: Mapping[str, Edit] | None = None,
) -> list[Image]:
    """The images of these names, in their order, out of one `save`.

    Layers whose diff ids are in `without` are left out. `watch` is told uncompressed bytes, done and about in all.
    `edits` change layers, named by the diff id that they have in the engine. Raises UsageError where an image is
    missing, EngineError where the engine gives less than it says it has; whatever the sink raises.
    """
    wanted = [described(engine, reference) for reference in references]
    foretold = Foretold([each.layers for each in wanted])
    total = sum({each.id: each.size for each in wanted}.values())
    taking = _Taking(sink, frozenset(without), watch, total, packing, edits or {})
    folder = early.folder_of(engine)
    ahead = early.Early(folder, foretold) if folder else None
    answer = engine.save_all([each.name for each in wanted])
    with contextlib.closing(early.Begun(answer) if ahead else answer) as blocks:
        if isinstance(blocks, early.Begun) and ahead and (whole := _from_files(wanted, ahead, blocks, taking)):
            return whole
        saved = Saved(blocks)
        for layer in saved.layers():
            taking.take(layer, foretold.diff_id(layer.path, saved.texts))
        images = saved.images()
    if unknown := (edits or {}).keys() - taking.original.values():
        raise EngineError(f"the engine's archive does not tell which layer is {', '.join(unknown)}")
    return [_image(each, images, taking) for each in wanted]


def _from_files(
    wanted: Sequence[Wanted], ahead: early.Early, begun: early.Begun, taking: _Taking
) -> list[Image] | None:
    """Take the layers that can be read before the engine answers. The images, where nothing of them is missing then."""
    for diff_id, content in ahead.layers(lambda: begun.waiting):
        taking.early(diff_id, content)
    sizes = ahead.sizes({each.id: each.layers for each in wanted})
    configs = {each.id: ahead.config(each.id) for each in wanted}
    images = []
    for each in wanted:
        config = configs[each.id]
        if config is None or not all(taking.has(diff_id) and diff_id in sizes for diff_id in each.layers):
            return None
        layers = (Layer(diff_id, sizes[diff_id], taking.blob(diff_id)) for diff_id in each.layers)
        images.append(Image(each.name, config, tuple(layers)))
    return images


def described(engine: Engine, reference: str) -> Wanted:
    """The engine's image of that name. Raises UsageError where there is none, or it has no name to be loaded under."""
    found = engine.image(reference)
    if found is None:
        raise UsageError("the engine has no image of this name", reference, "`reprokit build` makes a recipe's image")
    tags = found.get("RepoTags") or []
    asked = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
    named = [tag for tag in tags if _plain(tag) == _plain(asked)] or tags
    if not named:
        raise UsageError("the image has no name to load it under", reference, "give it one with `docker tag`")
    layers = (found.get("RootFS") or {}).get("Layers") or ()
    labels = (found.get("Config") or {}).get("Labels") or {}
    return Wanted(_plain(named[0]), found["Id"], found.get("Size", 0), tuple(layers), labels)


@dataclass
class _Taking:
    """`layers` are those that came, by their path; `original` their diff ids in the engine."""

    sink: Sink
    without: frozenset[str]
    watch: Watch
    total: int
    packing: Pack
    edits: Mapping[str, Edit]
    done: int = 0
    ahead: set[str] = field(default_factory=set)
    layers: dict[str, Layer] = field(default_factory=dict)
    original: dict[str, str] = field(default_factory=dict)

    def early(self, diff_id: str, blocks: Iterator[bytes]) -> None:
        """A layer that seems to be this one, before the archive has come to it; another is dropped again."""
        if diff_id in self.edits or self.has(diff_id):
            return
        done = self.done
        if self._pack(self._watched(blocks), diff_id)[1]:
            self.ahead.add(diff_id)
        else:
            self.done = done

    def has(self, diff_id: str) -> bool:
        """Whether nothing more is to be done for a layer."""
        return diff_id not in self.edits and (diff_id in self.without or self.sink.held(diff_id) is not None)

    def blob(self, diff_id: str) -> Descriptor | None:
        return None if diff_id in self.without else self.sink.held(diff_id)

    def take(self, layer: SavedLayer, foretold: str | None) -> None:
        blocks = self._watched(layer.blocks)
        if edit := self.edits.get(foretold or ""):
            packed, blob = self._pack(edit(blocks))
            self.original[layer.path] = foretold or ""
        elif foretold and self.has(foretold):
            # What is held has been compared with this digest already, and what is left out is nobody's matter here.
            went_by = layer.blocks if foretold in self.ahead else blocks
            packed, blob = Packed(foretold, sum(map(len, went_by)), None), self.blob(foretold)
        else:
            packed, blob = self._pack(blocks)
        self.layers[layer.path] = Layer(packed.diff_id, packed.size, None if packed.diff_id in self.without else blob)
        self.original.setdefault(layer.path, packed.diff_id)

    def _pack(self, blocks: Iterator[bytes], only: str = "") -> tuple[Packed, Descriptor | None]:
        """Into the sink, if it is new there, and the layer `only` where one is named."""
        blob = self.sink.begin()
        try:
            packed = self.packing(blocks, blob.write)
        except BaseException:
            blob.drop()
            raise
        held = self.sink.held(packed.diff_id)
        if held or packed.diff_id in self.without or (only and packed.diff_id != only):
            blob.drop()
            return packed, held
        assert packed.blob
        blob.keep(packed.diff_id, packed.blob)
        return packed, packed.blob

    def _watched(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield block
            self.done += len(block)
            self.watch(self.done, max(self.total, self.done))


def _image(wanted: Wanted, images: Sequence[SavedImage], taking: _Taking) -> Image:
    for image in images:
        there = tuple(taking.original[path] for path in image.layers)
        if there == wanted.layers and wanted.name in map(_plain, image.names):
            return Image(wanted.name, image.config, tuple(taking.layers[path] for path in image.layers))
    raise EngineError(
        "the engine's archive does not hold the image that the engine describes", wanted.name, "build the image anew"
    )


def _plain(name: str) -> str:
    """Engines write the same name in several lengths."""
    for prefix in ("docker.io/", "library/", "localhost/"):
        name = name.removeprefix(prefix)
    return name
