"""Images sent to one node: the missing layers are sent, resumed after a broken connection, and loaded there."""

from __future__ import annotations

import hashlib
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from reprokit.config.nodes import Node
from reprokit.engine import ImageInfo
from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError
from reprokit.filelocks import try_acquire
from reprokit.host.disk import ENGINE_HINT, require_space
from reprokit.nodes.inventory import Inventory, inventory
from reprokit.nodes.packing import Packing, PackingStopped
from reprokit.nodes.remote_load import load_script
from reprokit.nodes.remote_staging import RemoteStaging, forget, prepare
from reprokit.nodes.ssh import Lost, SshConnection, last_line
from reprokit.oci.blob_folder import StoredBlob
from reprokit.oci.canonical import canonical_digest_of
from reprokit.oci.model import Image
from reprokit.oci.store import Form
from reprokit.untrusted.documents import parsed, understood

_PAUSES_S = (1, 2, 4, 8, 16)  # before attempts that follow one without progress
_WITH_ARCHIVE = 1.5  # an archive of compressed layers has about half of their uncompressed size


class NameTaken(UsageError):
    """The node has other images with these names."""


class Delivery:
    """Sends all images to one node. `run` it in a thread; other threads may read its attributes.

    `doing` is the current work, `done` and `total` the bytes of layers present and expected on the node, `sent` the
    bytes sent so far. `complete` is false while layers are still packed: `total` then counts only the packed ones. At
    the end `had` says whether the node had everything, `error` why it lacks the images, and `loaded` are the IDs there
    of the images that it loaded, by name.
    """

    def __init__(
        self, node: Node, packing: Packing, folder: Path, sender: str, replace: bool, changed: Callable[[], None]
    ) -> None:
        self.node, self._replace = node, replace
        self._packing, self._folder, self._sender, self._changed = packing, folder, sender, changed
        self.doing, self.done, self.total, self.complete, self.sent = "connecting", 0, 0, True, 0
        self.had = False
        self.error: ReprokitError | None = None
        self.loaded: dict[str, str] = {}
        self._stop = threading.Event()
        self._connection: SshConnection | None = None
        self._asked = False

    def run(self) -> None:
        """Send the images."""
        try:
            with self._only_one():
                self._attempts()
        except PackingStopped:
            self.error = SourceError("the layers could not be packed", self.node.name)
        except ReprokitError as error:
            self.error = error
        except Exception as error:  # one node's failure must not end the transfers to the others
            self.error = SourceError(f"{type(error).__name__}: {error}", self.node.name)
        finally:
            if not self._asked:
                self._packing.need(None)

    def stop(self) -> None:
        """Stop it from another thread; the bytes that have arrived stay for the next attempt."""
        self._stop.set()
        if self._connection:
            self._connection.close()

    def _attempts(self) -> None:
        pauses = list(_PAUSES_S)
        while True:
            before = self.sent
            try:
                self._connection = SshConnection(self.node)
                with self._connection as connection:
                    self._once(connection)
                return
            except Lost as error:
                if self.sent > before:
                    pauses = list(_PAUSES_S)
                # A node that never answered is down.
                if not self._asked or not pauses or self._stop.is_set():
                    raise
                self._report(f"retrying: {error.message}")
                if self._stop.wait(pauses.pop(0)):
                    raise

    def _once(self, connection: SshConnection) -> None:
        self._report("asking")
        engine = inventory(connection)
        others = _others(engine, self._packing.images)
        same = {name for name in others if self._same_files(connection, name)}
        if not self._replace and (other := [name for name in others if name not in same]):
            raise NameTaken(
                f"other images have the names {', '.join(other)}", self.node.name, "to move the names: --replace"
            )
        images = [image for image in self._packing.images if image.name not in same]
        missing = _missing(images, engine)
        if not missing and all(map(engine.has, images)):
            forget(connection, self._sender, [layer for image in self._packing.images for layer in image.layers])
            self.had = not self._asked
            return
        form = engine.form
        staging = prepare(connection, self._sender)
        self._require_space(engine, form, sum(self._packing.sizes.get(diff_id, 0) for diff_id in missing))
        if not self._asked:
            self._asked = True
            self._packing.need(missing)
        blobs: dict[str, StoredBlob] = {}
        self._report("waiting for layers" if missing else "loading")
        for diff_id in missing:
            spooled = self._packing.blob(diff_id)
            blobs[diff_id] = self._packing.spool.gzipped(diff_id) if form is Form.GZIP else spooled
            rest = [self._packing.spool.find(other) for other in missing[len(blobs) :]]
            self._put(staging, list(blobs.values()), rest)
        packed = [
            _with_blobs(image, blobs, engine) for image in self._packing.packed_images() if image.name not in same
        ]
        layers = {layer.diff_id: layer.size for image in packed for layer in image.layers}
        self._require_space(engine, form, sum(layers[diff_id] for diff_id in blobs))
        self._load(connection, staging, packed, blobs, form)

    def _same_files(self, connection: SshConnection, name: str) -> bool:
        """Whether the image of this name there is what another engine made of the same files and settings."""
        if not (digest := self._packing.canonical[name]):
            return False
        answer = connection.run(f"docker image inspect --format '{{{{json .}}}}' {shlex.quote(name)}", limit_s=60)
        with understood("the node's answer", self.node.name):
            return answer.returncode == 0 and canonical_digest_of(ImageInfo.of(parsed(answer.stdout))) == digest

    def _put(self, staging: RemoteStaging, blobs: Sequence[StoredBlob], rest: Sequence[StoredBlob | None]) -> None:
        """Send the last of `blobs`; `rest` are the next ones, None while they are not packed."""
        *before, blob = blobs
        base, last = sum(each.blob.size for each in before), staging.arrived(blob)
        self.total = base + blob.blob.size + sum(each.blob.size for each in rest if each)
        self.complete = all(rest)

        def progress(done: int) -> None:
            nonlocal last
            self.sent += done - last
            last, self.done = done, base + done
            self._report("sending")

        staging.put(blob, progress)

    def _load(
        self,
        connection: SshConnection,
        staging: RemoteStaging,
        images: Sequence[Image],
        blobs: dict[str, StoredBlob],
        form: Form,
    ) -> None:
        self._report("loading")
        answer = connection.run(*load_script(staging.folder, images, blobs, form), limit_s=None)
        if answer.returncode:
            why = last_line(answer.stderr)
            raise EngineError(f"the node's engine could not load the images: {why}", self.node.name, _hint(why))
        with understood("the node's answer", self.node.name):
            ids = [parsed(line) for line in answer.stdout.splitlines()[-len(images) :]]
            each = list(zip(images, ids, strict=True))
        for image, loaded in each:
            if loaded != form.id_of(image):
                raise EngineError(f"the node loaded another image as {image.name}", self.node.name)
        self.loaded = {image.name: loaded for image, loaded in each}

    def _require_space(self, engine: Inventory, form: Form, unpacked: int) -> None:
        """Raises EngineError if the engine's root folder lacks space for the layers and their archive."""
        needed = unpacked * (2 if form is Form.PLAIN else _WITH_ARCHIVE)
        if engine.free is not None:
            require_space(int(needed), f"the engine's folder on {self.node.name}", engine.free, ENGINE_HINT)

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Lock the node among the processes of this home; the next one then finds everything present."""
        key = f"{self.node.user}@{self.node.host}:{self.node.port} {self.node.jump}"
        with (self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock").open("ab") as lock:
            while not try_acquire(lock):
                self._report("waiting for another send")
                if self._stop.wait(1):
                    raise SourceError("stopped", self.node.name)
            yield

    def _report(self, doing: str) -> None:
        self.doing = doing
        self._changed()


def _missing(images: Sequence[ImageInfo], engine: Inventory) -> list[str]:
    """The layers that the node lacks, each once, in the order of the images.

    In a graph-driver store a layer counts only on top of those below it, in containerd's only by a known blob.
    """
    found: dict[str, None] = {}
    chains = engine.chains
    for image in images:
        rest = image.layers if engine.containerd else image.layers[chains.present(image.layers) :]
        found.update(dict.fromkeys(layer for layer in rest if layer not in engine.blobs))
    return list(found)


def _with_blobs(image: Image, blobs: Mapping[str, StoredBlob], engine: Inventory) -> Image:
    """The image with the blobs that the node's store has or gets; without any if layers are unpacked there."""
    known = {**engine.blobs, **{diff_id: stored.blob for diff_id, stored in blobs.items()}}
    known = {} if engine.form is Form.PLAIN else known
    return replace(image, layers=tuple(replace(layer, blob=known.get(layer.diff_id)) for layer in image.layers))


def _others(engine: Inventory, images: Sequence[ImageInfo]) -> list[str]:
    """Names that belong to other images on the node."""
    taken = {tag for present in engine.images for tag in present.tags}
    return [image.name for image in images if image.name in taken and not engine.has(image)]


def _hint(why: str) -> str:
    return "free space below its engine's root folder" if "no space left" in why.lower() else "repeat the command"
