"""Images sent to one node: the missing layers are sent, resumed after a broken connection, and loaded there."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from reprokit.config.nodes import Node
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.host.disk import ENGINE_HINT, require_space
from reprokit.nodes.inventory import Inventory, inventory
from reprokit.nodes.packing import Packing
from reprokit.nodes.remote_load import compose, load_script
from reprokit.nodes.remote_staging import RemoteStaging, forget, prepare
from reprokit.nodes.spool import Spooled
from reprokit.nodes.ssh import Lost, SshConnection, last_line
from reprokit.oci.model import Image
from reprokit.oci.read import EngineImage
from reprokit.oci.store import Form
from reprokit.untrusted.documents import parsed, understood

_PAUSES_S = (1, 2, 4, 8, 16)  # before attempts that follow one without progress
_WITH_ARCHIVE = 1.5  # an archive of compressed layers has about half of their uncompressed size


@dataclass
class NodeProgress:
    """One node's line: the current work, bytes of layers present and expected there, and bytes sent so far.

    `complete` is false while layers are still packed: `total` then counts only the packed ones.
    """

    node: str
    doing: str = "connecting"
    done: int = 0
    total: int = 0
    complete: bool = True
    sent: int = 0


class NameTaken(UsageError):
    """The node has other images with these names."""


class Delivery:
    """Sends all images to one node. `run` it in a thread; other threads may read `progress`.

    `loaded` are the images' IDs on the node, in order, once they are loaded.
    """

    def __init__(
        self, node: Node, packing: Packing, folder: Path, sender: str, replace: bool, changed: Callable[[], None]
    ) -> None:
        self.node, self.progress, self._replace = node, NodeProgress(node.name), replace
        self._packing, self._folder, self._sender, self._changed = packing, folder, sender, changed
        self.loaded: list[str] = []
        self._stop = threading.Event()
        self._connection: SshConnection | None = None
        self._asked = False

    def run(self) -> bool:
        """Send the images. Returns False if the node had all of them.

        Raises SourceError, EngineError, NameTaken, or PackingStopped.
        """
        try:
            with self._only_one():
                return self._attempts()
        finally:
            if not self._asked:
                self._packing.leave()

    def stop(self) -> None:
        """Stop it from another thread; the bytes that have arrived stay for the next attempt."""
        self._stop.set()
        if self._connection:
            self._connection.close()

    def _attempts(self) -> bool:
        pauses = list(_PAUSES_S)
        while True:
            before = self.progress.sent
            try:
                self._connection = SshConnection(self.node)
                with self._connection as connection:
                    return self._once(connection)
            except Lost as error:
                if self.progress.sent > before:
                    pauses = list(_PAUSES_S)
                # A node that never answered is down.
                if not self._asked or not pauses or self._stop.is_set():
                    raise
                self._say(f"retrying: {error.message}")
                if self._stop.wait(pauses.pop(0)):
                    raise

    def _once(self, connection: SshConnection) -> bool:
        self._say("asking")
        there = inventory(connection)
        if not self._replace and (other := _others(there, self._packing.images)):
            raise NameTaken(
                f"other images have the names {', '.join(other)}", self.node.name, "to move the names: --replace"
            )
        missing = _missing(self._packing.images, there)
        if not missing and all(_has(there, image) for image in self._packing.images):
            forget(connection, self._sender, [layer for image in self._packing.images for layer in image.layers])
            return self._asked
        form = there.form
        staging = prepare(connection, self._sender)
        self._require_space(there, form, sum(self._packing.sizes.get(diff_id, 0) for diff_id in missing))
        if not self._asked:
            self._asked = True
            self._packing.need(missing)
        blobs: dict[str, Spooled] = {}
        self._say("waiting for layers" if missing else "loading")
        for diff_id in missing:
            spooled = self._packing.blob(diff_id)
            blobs[diff_id] = self._packing.spool.gzipped(diff_id) if form is Form.GZIP else spooled
            rest = [self._packing.spool.find(other) for other in missing[len(blobs) :]]
            self._put(staging, list(blobs.values()), rest)
        images = [_with_blobs(image, blobs, there) for image in self._packing.packed_images()]
        layers = {layer.diff_id: layer.size for image in images for layer in image.layers}
        self._require_space(there, form, sum(layers[diff_id] for diff_id in blobs))
        self._load(connection, staging, images, blobs, form)
        return True

    def _put(self, staging: RemoteStaging, blobs: Sequence[Spooled], rest: Sequence[Spooled | None]) -> None:
        """Send the last of `blobs`; `rest` are the next ones, None while they are not packed."""
        *before, blob = blobs
        base, last = sum(each.blob.size for each in before), staging.there(blob)
        self.progress.total = base + blob.blob.size + sum(each.blob.size for each in rest if each)
        self.progress.complete = all(rest)

        def watch(done: int) -> None:
            nonlocal last
            self.progress.sent += done - last
            last, self.progress.done = done, base + done
            self._say("sending")

        staging.put(blob, watch)

    def _load(
        self,
        connection: SshConnection,
        staging: RemoteStaging,
        images: Sequence[Image],
        blobs: dict[str, Spooled],
        form: Form,
    ) -> None:
        self._say("loading")
        head, command = compose(images, blobs, form)
        script = load_script(staging.folder, command, images, list(blobs.values()), form)
        answer = connection.run(script, head, limit_s=None)
        if answer.returncode:
            why = last_line(answer.stderr.encode())
            raise EngineError(f"the node's engine could not load the images: {why}", self.node.name, _hint(why))
        with understood("the node's answer", self.node.name):
            ids = [parsed(line) for line in answer.stdout.splitlines()[-len(images) :]]
            each = list(zip(images, ids, strict=True))
        for image, loaded in each:
            if loaded != form.id_of(image):
                raise EngineError(f"the node loaded another image as {image.name}", self.node.name)
        self.loaded = ids

    def _require_space(self, there: Inventory, form: Form, unpacked: int) -> None:
        """Raises EngineError where the engine's root folder lacks space for the layers and their archive."""
        needed = unpacked * (2 if form is Form.PLAIN else _WITH_ARCHIVE)
        if there.free is not None:
            require_space(int(needed), f"the engine's folder on {self.node.name}", there.free, ENGINE_HINT)

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Lock the node among the processes of this home; the next one then finds everything present."""
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


def _missing(images: Sequence[EngineImage], there: Inventory) -> list[str]:
    """The layers that the node lacks, each once, in the order of the images.

    In a graph-driver store a layer counts only on top of those below it, in containerd's only by a known blob.
    """
    found: dict[str, None] = {}
    chains = there.chains
    for image in images:
        rest = image.layers if there.containerd else image.layers[chains.present(image.layers) :]
        found.update(dict.fromkeys(layer for layer in rest if layer not in there.blobs))
    return list(found)


def _with_blobs(image: Image, blobs: Mapping[str, Spooled], there: Inventory) -> Image:
    """The image with the blobs that the node's store has or gets."""
    known = {**there.blobs, **{diff_id: spooled.blob for diff_id, spooled in blobs.items()}}
    return replace(image, layers=tuple(replace(layer, blob=known.get(layer.diff_id)) for layer in image.layers))


def _has(there: Inventory, image: EngineImage) -> bool:
    return any(image.name in held.tags and image.id in (held.id, held.config) for held in there.images)


def _others(there: Inventory, images: Sequence[EngineImage]) -> list[str]:
    """Names that belong to other images on the node."""
    taken = {tag for held in there.images for tag in held.tags}
    return [image.name for image in images if image.name in taken and not _has(there, image)]


def _hint(why: str) -> str:
    return "free space below its engine's root folder" if "no space left" in why.lower() else "repeat the command"
