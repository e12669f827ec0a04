"""One image on its way to the engine, in steps that each end in an image of the layers so far.

The engine first copies what it gets and then extracts it, one layer after another. So the next step is sent while the
last one is extracted, and only its end is held back until the layers below it are there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from reprokit.bundle import give, target
from reprokit.bundle.compressed import completed
from reprokit.bundle.model import Image
from reprokit.bundle.target import Chain, Form, Target, diff_ids, held
from reprokit.bundle.verify import Checked, Watch
from reprokit.engine import LABEL
from reprokit.errors import EngineError, ReprokitError

BEGUN = f"{LABEL}.loading"
# What the engine has is not sent again after a break, and Docker keeps a copy of no more than two steps (or two layers,
# where they are larger) beside the layers that it extracts.
STEP = 128 << 20


class Giving:
    """Raises EngineError. `id` is what the engine will call the image; `watch` is told bytes of the bundle."""

    def __init__(self, file: Checked, image: Image, there: Target, watch: Watch) -> None:
        self._file, self._there = file, there
        self._image = image = _as_taken(file, image, there)
        self._engine = there.engine
        self._layers = diff_ids(image)
        self.id = give.id_at_engine(image, there.form)
        self._watch, self._done, self._stopped = watch, 0, False
        self._total = sum(file.bundle.layers[each].descriptor.size for each in set(self._layers) & set(file.sizes))

    def all(self) -> None:
        """Give all layers that the engine lacks; under no name."""
        if not self._whole():
            self._attempts()
        if not self._whole():
            raise EngineError("the engine has other layers than the bundle's image", self._image.name)
        self._there.chains |= target.chains({self._layers: self.id})
        # They stay where it was interrupted, to go on from.
        for listed in self._begun():
            with contextlib.suppress(ReprokitError):
                self._engine.remove_image(listed["Id"])

    def _attempts(self) -> None:
        try:
            self._all_steps()
        except EngineError:
            # Somebody may have removed an image whose layers were counted on.
            believed = held(self._layers, self._known())
            self._there.ask_again()
            if held(self._layers, self._known()) >= believed:
                raise
            self._all_steps()

    def _all_steps(self) -> None:
        begin = held(self._layers, self._known())
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
        """After which layers a step ends; the last is the whole image."""
        ends, size, count = [], 0, len(self._layers)
        for n in range(begin, count):
            size += self._file.sizes.get(self._layers[n], 0)
            if size >= STEP and n + 1 < count:
                ends.append(n + 1)
                size = 0
        return [*ends, count]

    def _blocks(self, begin: int, end: int, last: Future[None] | None) -> Generator[bytes, None, None]:
        image = self._image if end == len(self._layers) else give.begun(self._image, end, BEGUN, _now())
        carried = {layer.diff_id for layer in image.layers[begin:]} & set(self._file.sizes)
        yield from give.archive(self._file.bundle, image, carried, self._file.sizes, self._there.form, self._count)
        if last:
            last.result()
        yield give.END

    def _start(self, blocks: Generator[bytes, None, None]) -> Future[None]:
        """The engine's answer, to come. Nothing waits for the thread when the user interrupts."""
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

    def _known(self) -> dict[Chain, str]:
        """The layers that need not be sent.

        A containerd store goes by compressed blobs, and has those of the bundle only where they came from it.
        """
        if self._there.form is not Form.LAYOUT:
            return self._there.chains
        return target.chains({self._layers_of(listed["Id"]) or (): listed["Id"] for listed in self._begun()})

    def _begun(self) -> list[dict[str, Any]]:
        return self._engine.images([f"{BEGUN}={self._image.id}"])

    def _whole(self) -> bool:
        return self._layers_of(self.id) == self._layers

    def _count(self, count: int) -> None:
        if self._stopped:
            raise EngineError("given up", self._image.name)
        self._done += count
        self._watch(self._done, max(self._total, self._done))

    def _layers_of(self, reference: str) -> Chain | None:
        found = self._engine.image(reference)
        return tuple((found.get("RootFS") or {}).get("Layers") or ()) if found else None


def is_image(file: Checked, image: Image, there: Target, found: dict[str, Any]) -> bool:
    """Whether an image that the engine describes is the bundle's."""
    if tuple((found.get("RootFS") or {}).get("Layers") or ()) != diff_ids(image):
        return False
    return bool(found["Id"] == give.id_at_engine(_as_taken(file, image, there), there.form))


def _as_taken(file: Checked, image: Image, there: Target) -> Image:
    return give.unpacked_image(image, file.sizes) if there.form is Form.PLAIN_LAYOUT else completed(image, there)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
