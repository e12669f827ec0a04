"""Images brought to one node: what it lacks is sent, gone on with when the connection breaks, and loaded there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from reprokit.bundle.model import Image
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.host.disk import ENGINE_HINT, require_space
from reprokit.nodes.address import Node
from reprokit.nodes.archive import Form, compose, form_for, id_there, load_script
from reprokit.nodes.incoming import Incoming, forget, prepare
from reprokit.nodes.inventory import Inventory, inventory
from reprokit.nodes.spool import Spooled
from reprokit.nodes.ssh import Connection, Lost, last_line
from reprokit.nodes.supply import Local, Supply
from reprokit.untrusted.documents import parsed, understood

_PAUSES_S = (1, 2, 4, 8, 16)  # before each new attempt that follows one which brought nothing
_PACKED_TOO = 1.5  # an archive of compressed layers is about half of what is in it


@dataclass
class Progress:
    """One node's line: what is done now, the bytes of layers that are there and that are to be there, those sent now.

    `whole` tells that `total` are all: until everything is packed, it is only those that are.
    """

    node: str
    doing: str = "connecting"
    done: int = 0
    total: int = 0
    whole: bool = True
    sent: int = 0


class Taken(UsageError):
    """The node has other images of these names."""


class Delivery:
    """The way of all images to one node. `run` it in a thread; `progress` is for others to read.

    `loaded` are the IDs that the images have there, in their order, where they were loaded.
    """

    def __init__(
        self, node: Node, supply: Supply, folder: Path, sender: str, replace: bool, changed: Callable[[], None]
    ) -> None:
        self.node, self.progress, self._replace = node, Progress(node.name), replace
        self._supply, self._folder, self._sender, self._changed = supply, folder, sender, changed
        self.loaded: list[str] = []
        self._stop = threading.Event()
        self._connection: Connection | None = None
        self._asked = False

    def run(self) -> bool:
        """Returns False where the node had everything. Raises SourceError, EngineError, Taken, or Stopped."""
        try:
            with self._only_one():
                return self._attempts()
        finally:
            if not self._asked:
                self._supply.leave()

    def stop(self) -> None:
        """End it from another thread; what has arrived stays, for the next time."""
        self._stop.set()
        if self._connection:
            self._connection.close()

    def _attempts(self) -> bool:
        pauses = list(_PAUSES_S)
        while True:
            before = self.progress.sent
            try:
                self._connection = Connection(self.node)
                with self._connection as connection:
                    return self._once(connection)
            except Lost as error:
                if self.progress.sent > before:
                    pauses = list(_PAUSES_S)
                # A node that never answered is off.
                if not self._asked or not pauses or self._stop.is_set():
                    raise
                self._say(f"again, for {error.message}")
                if self._stop.wait(pauses.pop(0)):
                    raise

    def _once(self, connection: Connection) -> bool:
        self._say("asking")
        there = inventory(connection)
        if not self._replace and (other := _others(there, self._supply.wanted)):
            raise Taken(
                f"there are other images called {', '.join(other)}", self.node.name, "--replace moves the names"
            )
        missing = _missing(self._supply.wanted, there)
        if not missing and all(_has(there, image) for image in self._supply.wanted):
            forget(connection, self._sender, [layer for image in self._supply.wanted for layer in image.layers])
            return self._asked
        form = form_for(there)
        incoming = prepare(connection, self._sender)
        sizes = {i: n for image in self._supply.wanted for i, n in zip(image.layers, image.sizes, strict=False)}
        self._need_space(there, form, sum(sizes.get(diff_id, 0) for diff_id in missing))
        if not self._asked:
            self._asked = True
            self._supply.need(missing)
        blobs: dict[str, Spooled] = {}
        self._say("waiting for layers" if missing else "loading")
        for diff_id in missing:
            spooled = self._supply.blob(diff_id)
            blobs[diff_id] = self._supply.spool.gzipped(diff_id) if form is Form.GZIP else spooled
            rest = [self._supply.spool.find(other) for other in missing[len(blobs) :]]
            self._put(incoming, list(blobs.values()), rest)
        images = [_with_blobs(image, blobs, there) for image in self._supply.images()]
        layers = {layer.diff_id: layer.size for image in images for layer in image.layers}
        self._need_space(there, form, sum(layers[diff_id] for diff_id in blobs))
        self._load(connection, incoming, images, blobs, form)
        return True

    def _put(self, incoming: Incoming, blobs: Sequence[Spooled], rest: Sequence[Spooled | None]) -> None:
        """Send the last of `blobs`; `rest` are those that follow, None while they are not packed."""
        *before, blob = blobs
        base, last = sum(each.blob.size for each in before), incoming.there(blob)
        self.progress.total = base + blob.blob.size + sum(each.blob.size for each in rest if each)
        self.progress.whole = all(rest)

        def watch(done: int) -> None:
            nonlocal last
            self.progress.sent += done - last
            last, self.progress.done = done, base + done
            self._say("sending")

        incoming.put(blob, watch)

    def _load(
        self,
        connection: Connection,
        incoming: Incoming,
        images: Sequence[Image],
        blobs: dict[str, Spooled],
        form: Form,
    ) -> None:
        self._say("loading")
        head, command = compose(images, blobs, form)
        script = load_script(incoming.folder, command, images, list(blobs.values()), form)
        answer = connection.run(script, head, limit_s=None)
        if answer.returncode:
            why = last_line(answer.stderr.encode())
            raise EngineError(f"the node's engine could not load the images: {why}", self.node.name, _hint(why))
        with understood("the node's answer", self.node.name):
            ids = [parsed(line) for line in answer.stdout.splitlines()[-len(images) :]]
            each = list(zip(images, ids, strict=True))
        for image, loaded in each:
            if loaded != id_there(image, form):
                raise EngineError(f"the node has another {image.name} after loading it", self.node.name)
        self.loaded = ids

    def _need_space(self, there: Inventory, form: Form, unpacked: int) -> None:
        """Raises EngineError where the engine's root folder is too small for layers and, meanwhile, their archive."""
        needed = int(unpacked * (2 if form is Form.UNPACKED else _PACKED_TOO))
        if there.free is not None:
            require_space(needed, f"the engine's folder on {self.node.name}", there.free, ENGINE_HINT)

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Of the processes of this home only one sends to the node at a time; the next then finds everything there."""
        key = f"{self.node.user}@{self.node.host}:{self.node.port} {self.node.jump}"
        lock = FileLock(self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock")
        while True:
            try:
                with lock.acquire(timeout=1):
                    yield
                    return
            except Timeout:
                self._say("waiting for another send")
                if self._stop.is_set():
                    raise SourceError("stopped", self.node.name) from None

    def _say(self, doing: str) -> None:
        self.progress.doing = doing
        self._changed()


def _missing(images: Sequence[Local], there: Inventory) -> list[str]:
    """The layers that have to come, each once, in the order of the images.

    In a graph-driver store a layer counts only upon those below it, in containerd's only by a known blob.
    """
    found: dict[str, None] = {}
    for image in images:
        rest = image.layers if there.containerd else image.layers[there.held(image.layers) :]
        found.update(dict.fromkeys(layer for layer in rest if layer not in there.blobs))
    return list(found)


def _with_blobs(image: Image, blobs: Mapping[str, Spooled], there: Inventory) -> Image:
    """The image with the blobs by which the node knows its layers, or will."""
    known = {**there.blobs, **{diff_id: spooled.blob for diff_id, spooled in blobs.items()}}
    return replace(image, layers=tuple(replace(layer, blob=known.get(layer.diff_id)) for layer in image.layers))


def _has(there: Inventory, image: Local) -> bool:
    return any(image.name in held.tags and image.id in (held.id, held.config) for held in there.images)


def _others(there: Inventory, images: Sequence[Local]) -> list[str]:
    """Names that are those of other images on the node."""
    taken = {tag for held in there.images for tag in held.tags}
    return [image.name for image in images if image.name in taken and not _has(there, image)]


def _hint(why: str) -> str:
    return "free space below its engine's root folder" if "no space left" in why.lower() else "repeat the command"
