"""One image loaded into an engine, in steps that each end in an image of the layers so far.

The engine first copies the archive that it gets and then extracts it, one layer after another. So the next step is sent
while the last one is extracted, and only its end is held back until the layers below are complete.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol

from reprokit.display import ByteProgress
from reprokit.engine import LABEL, ImageInfo
from reprokit.errors import EngineError, ReprokitError
from reprokit.oci.containerd import with_store_blobs
from reprokit.oci.layout import END, as_json, header, padding, small_entries
from reprokit.oci.model import Image, Layer, blob_path
from reprokit.oci.store import Form, ImageStore, LayerChains

LOADING = f"{LABEL}.loading"
# After a break the engine's layers are not sent again. Docker keeps a copy of at most two steps (or two layers, if they
# are larger) beside the layers that it extracts.
STEP = 128 << 20


class LayerSource(Protocol):
    """Layers to load. `sizes` are their uncompressed sizes by diff ID.

    `blocks` yields a layer's content, uncompressed if `plain`, and reports how many packed bytes it has read.
    """

    @property
    def sizes(self) -> Mapping[str, int]: ...
    def blocks(self, diff_id: str, plain: bool, count: Callable[[int], None]) -> Iterator[bytes]: ...


class Loader:
    """Loads an image under no name. `id` is the engine's ID of the image; `progress` gets packed bytes.

    Raises EngineError.
    """

    def __init__(self, source: LayerSource, image: Image, store: ImageStore, progress: ByteProgress) -> None:
        self._source, self._store, self._engine = source, store, store.engine
        self._image = as_stored(source, image, store)
        self._layers = self._image.diff_ids
        self.id = store.form.id_of(self._image)
        self._progress, self._done, self._stopped = progress, 0, False
        packed = {layer.diff_id: layer.descriptor.size for layer in image.layers if layer.diff_id in source.sizes}
        self._total = sum(packed.values())

    def load(self) -> None:
        """Load every layer that the engine lacks."""
        if not self._complete():
            self._attempts()
        if not self._complete():
            raise EngineError("the engine has other layers than the bundle's image", self._image.name)
        self._store.chains.add(self._layers, self.id)
        # After an interrupt these images stay, so that the next attempt can resume.
        for image in self._unfinished():
            with contextlib.suppress(ReprokitError):
                self._engine.remove_image(image.id)

    def _attempts(self) -> None:
        try:
            self._steps()
        except EngineError:
            # Another process may have removed an image with layers that this one relied on.
            believed = self._chains().present(self._layers)
            self._store.refresh()
            if self._chains().present(self._layers) >= believed:
                raise
            self._steps()

    def _steps(self) -> None:
        begin = self._chains().present(self._layers)
        last: Future[None] | None = None
        self._stopped = False
        try:
            for end in self._ends(begin):
                step = self._start(self._blocks(begin, end, last))
                if last:
                    last.result()
                begin, last = end, step
            if last:
                last.result()
        except BaseException:
            self._stopped = True
            raise

    def _ends(self, begin: int) -> list[int]:
        """The numbers of layers at which the steps end; the last is the complete image."""
        ends, size, count = [], 0, len(self._layers)
        for n in range(begin, count):
            size += self._source.sizes.get(self._layers[n], 0)
            if size >= STEP and n + 1 < count:
                ends.append(n + 1)
                size = 0
        return [*ends, count]

    def _blocks(self, begin: int, end: int, last: Future[None] | None) -> Generator[bytes, None, None]:
        # Without a name: the caller tags the image when all of it is loaded.
        image = replace(self._image, name="") if end == len(self._layers) else first_layers(self._image, end)
        yield small_entries([image])
        for diff_id, blob in {layer.diff_id: layer.descriptor for layer in image.layers[begin:]}.items():
            if diff_id in self._source.sizes:
                yield header(blob_path(blob.digest), blob.size)
                yield from self._source.blocks(diff_id, self._store.form is Form.PLAIN, self._count)
                yield padding(blob.size)
        if last:
            last.result()
        yield END  # without the end mark the engine loads nothing

    def _start(self, blocks: Generator[bytes, None, None]) -> Future[None]:
        """The engine's future answer. After an interrupt nothing waits for the thread."""
        answer: Future[None] = Future()

        def work() -> None:
            try:
                with contextlib.closing(blocks):
                    self._engine.load(blocks)
                answer.set_result(None)
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return answer

    def _chains(self) -> LayerChains:
        """Layers that the engine already has.

        A containerd store has the bundle's compressed blobs only if an earlier attempt loaded them.
        """
        if self._store.form is not Form.BLOBS:
            return self._store.chains
        return LayerChains((self._engine.layers(image.id), image.id) for image in self._unfinished())

    def _unfinished(self) -> list[ImageInfo]:
        """The unnamed images of the image's first layers.

        Images built on a stranger's image inherit its labels, so one with a name is not among them.
        """
        return [image for image in self._engine.images([f"{LOADING}={self._image.id}"]) if not image.names]

    def _complete(self) -> bool:
        image = self._engine.image(self.id)
        return image is not None and image.layers == self._layers

    def _count(self, count: int) -> None:
        if self._stopped:
            raise EngineError("stopped", self._image.name)
        self._done += count
        self._progress(self._done, max(self._total, self._done))


def as_stored(source: LayerSource, image: Image, store: ImageStore) -> Image:
    """The image with the blobs under which the store will list its layers. Raises EngineError."""
    if store.form is not Form.PLAIN:
        return with_store_blobs(image, store)
    sizes = source.sizes
    return replace(
        image, layers=tuple(Layer(old.diff_id, sizes.get(old.diff_id, old.size), None) for old in image.layers)
    )


def first_layers(image: Image, count: int) -> Image:
    """An unnamed image of an image's first layers, which keeps them in the engine until all are present.

    Its label `LOADING` is the complete image's ID.
    """
    complete = json.loads(image.config)
    config = {
        **{key: complete[key] for key in ("architecture", "os", "variant") if key in complete},
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "config": {"Labels": {LOADING: image.id}},
        "rootfs": {"type": "layers", "diff_ids": list(image.diff_ids[:count])},
    }
    return Image("", as_json(config), image.layers[:count])
