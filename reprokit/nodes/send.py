"""Send images to several nodes at once: pack layers once, send the missing ones, resume, and load them there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shlex
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import zstandard

from reprokit.config.nodes import Node
from reprokit.display import ByteProgress, ProgressDisplay
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError
from reprokit.filelocks import acquire, try_acquire
from reprokit.formatting import Meter, clock, size
from reprokit.host.disk import ENGINE_HINT, require_space
from reprokit.image import trust
from reprokit.image.labels import kind_of_name
from reprokit.nodes.remote_staging import RemoteStaging, forget, load_script, prepare, sender_id
from reprokit.nodes.ssh import Lost, SshConnection, last_line
from reprokit.nodes.survey import Inventory, inventory
from reprokit.oci.blob_folder import BlobFolder, StoredBlob
from reprokit.oci.canonical import canonical_digest_of
from reprokit.oci.compress import Hashed
from reprokit.oci.model import GZIP_LAYER_TYPE, Descriptor, Image, Layer
from reprokit.oci.read import engine_image, layer_sizes, read_images
from reprokit.oci.store import Form
from reprokit.untrusted.documents import parsed, understood

if TYPE_CHECKING:
    from rich.text import Text


_WEEK_S = 7 * 86400
_BLOCK = 1 << 20
_GZIP_LEVEL = 1  # a third faster than level 2, and 4 % larger
_LOOK_EVERY_S = 0.1
_PAUSES_S = (1, 2, 4, 8, 16)  # before repeated attempts without progress
_WITH_ARCHIVE = 1.5  # an archive of compressed layers has about half of their uncompressed size
HERE = "here"


class Spool(BlobFolder):
    """A folder of blobs.

    Entering it removes blobs that are a week old, unless another process uses the folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._gzipping = threading.Lock()

    def __enter__(self) -> Spool:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".lock").open("ab")
        self._remove(time.time() - _WEEK_S)
        acquire(self._lock, "waiting for another send to end", fcntl.LOCK_SH)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def clear(self) -> None:
        """Remove everything, unless another process uses the folder."""
        self._remove(float("inf"))

    def gzipped(self, diff_id: str) -> StoredBlob:
        """A packed layer recompressed with gzip; equal layers give equal blobs."""
        with self._gzipping:
            if not (blob := self.find(diff_id, "gz")):
                self._gzip(diff_id)
                blob = self.find(diff_id, "gz")
        assert blob
        return blob

    def _gzip(self, diff_id: str) -> None:
        source, packer = self.find(diff_id), zlib.compressobj(_GZIP_LEVEL, wbits=31)
        assert source
        with self.reported(), self.begin() as blob, source.path.open("rb") as file:
            hashed = Hashed(blob.write)
            for block in zstandard.ZstdDecompressor().read_to_iter(file, _BLOCK, _BLOCK):
                hashed.write(packer.compress(block))
            hashed.write(packer.flush())
            blob.keep(Layer(diff_id, 0, Descriptor(GZIP_LAYER_TYPE, hashed.digest, hashed.size)))

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Report a full disk as SourceError."""
        try:
            yield
        except OSError as error:
            hint = "free space there, or choose another place with $REPROKIT_HOME"
            raise SourceError(f"layers cannot be packed: {error.strerror}", str(self.folder), hint) from None

    def _remove(self, before: float) -> None:
        """Remove files older than `before` if no other process uses the folder, and keep the exclusive lock."""
        if try_acquire(self._lock):
            for path in self.folder.iterdir():
                if path.name != ".lock" and path.is_file() and path.stat().st_mtime < before:
                    path.unlink()


class PackingStopped(Exception):
    """Packing failed or was interrupted."""


def image_to_send(engine: Engine, name: str) -> ImageInfo:
    """Raises UsageError if the engine has no such image, or if its name is reserved."""
    image = engine_image(engine, name)
    if kind_of_name(image.name) == "reserved":
        raise UsageError("this name is reserved for reprokit's own images", name, "give it another with `docker tag`")
    return image


class Packing:
    """Layers of images, packed once for all nodes; `sizes` are their approximate uncompressed bytes by diff ID.

    `canonical` are the images' canonical digests by name, "" if they are not cached.

    `count` threads call `need` once each; then `pack` runs.
    """

    def __init__(self, engine: Engine, images: Sequence[ImageInfo], spool: Spool, count: int) -> None:
        self.spool, self.images = spool, tuple(images)
        self.sizes = {key: size for image in images for key, size in layer_sizes(engine, image).items()}
        self.canonical = {image.name: canonical_digest_of(engine.image(image.id)) for image in images}
        self._engine, self._waiting = engine, count
        self._needed: set[str] = set()
        self._requested = False
        self._changed = threading.Condition()
        self._ended = False
        self._packed: list[Image] | None = None

    def need(self, layers: Collection[str] | None) -> None:
        """Register the layers that a node lacks; None if it needs nothing, or has failed."""
        with self._changed:
            self._needed.update(layers or ())
            self._requested |= layers is not None
            self._waiting -= 1
            self._changed.notify_all()

    def pack(self, progress: ByteProgress) -> None:
        """Wait for all nodes, then pack the layers that they need. Raises as `read_images`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting <= 0)
        try:
            if not self._requested:
                return
            without = frozenset(layer for image in self.images for layer in image.layers) - self._needed
            with self.spool.reported():
                self._packed = read_images(self._engine, self.images, self.spool, without, progress)
        finally:
            self.end()

    def end(self) -> None:
        """End packing: waiting for a missing layer then raises PackingStopped."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def blob(self, diff_id: str) -> StoredBlob:
        """Wait for a registered layer. Raises PackingStopped."""
        while True:
            ended = self._ended
            if blob := self.spool.find(diff_id):
                return blob
            if ended:
                raise PackingStopped
            with self._changed:
                self._changed.wait_for(lambda: self._ended, _LOOK_EVERY_S)

    def packed_images(self) -> list[Image]:
        """Wait for all layers; the images with their configs. Raises PackingStopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended)
        if self._packed is None:
            raise PackingStopped
        return self._packed


class NameTaken(UsageError):
    """The node has other images with these names."""


class Delivery:
    """Sends all images to one node. `run` it in a thread; other threads may read its attributes.

    `doing` is the current work, `done` and `total` the bytes of layers present and expected on the node, `sent` the
    bytes sent so far. `complete` is false while layers are still packed: `total` then counts only the packed ones. At
    the end, `had` is true if the node had everything, `error` is the reason for missing images, and `loaded` are the
    node's IDs of the loaded images, by name.
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
            following = [self._packing.spool.find(other) for other in missing[len(blobs) :]]
            self._put(staging, list(blobs.values()), following)
        packed = [
            _with_blobs(image, blobs, engine) for image in self._packing.packed_images() if image.name not in same
        ]
        layers = {layer.diff_id: layer.size for image in packed for layer in image.layers}
        self._require_space(engine, form, sum(layers[diff_id] for diff_id in blobs))
        self._load(connection, staging, packed, blobs, form)

    def _same_files(self, connection: SshConnection, name: str) -> bool:
        """Whether the node's image of this name has the same files and settings, perhaps from another engine."""
        if not (digest := self._packing.canonical[name]):
            return False
        answer = connection.run(f"docker image inspect --format '{{{{json .}}}}' {shlex.quote(name)}", limit_s=60)
        with understood("the node's answer", self.node.name):
            return answer.returncode == 0 and canonical_digest_of(ImageInfo.of(parsed(answer.stdout))) == digest

    def _put(self, staging: RemoteStaging, blobs: Sequence[StoredBlob], following: Sequence[StoredBlob | None]) -> None:
        """Send the last of `blobs`; `following` are the next blobs, None for those not packed yet."""
        *before, blob = blobs
        base, last = sum(other.blob.size for other in before), staging.arrived(blob)
        self.total = base + blob.blob.size + sum(other.blob.size for other in following if other)
        self.complete = all(following)

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
            raise EngineError(f"the node's engine could not load the images: {why}", self.node.name, _load_hint(why))
        with understood("the node's answer", self.node.name):
            ids = [parsed(line) for line in answer.stdout.splitlines()[-len(images) :]]
            pairs = list(zip(images, ids, strict=True))
        for image, loaded in pairs:
            if loaded != form.id_of(image):
                raise EngineError(f"the node loaded another image as {image.name}", self.node.name)
        self.loaded = {image.name: loaded for image, loaded in pairs}

    def _require_space(self, engine: Inventory, form: Form, unpacked: int) -> None:
        """Raises EngineError if the engine's root folder lacks space for the layers and their archive."""
        needed = unpacked * (2 if form is Form.PLAIN else _WITH_ARCHIVE)
        if engine.free is not None:
            require_space(int(needed), f"the engine's folder on {self.node.name}", engine.free, ENGINE_HINT)

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Lock the node for one process of this home; the next process then finds the layers present."""
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

    In a graph-driver store a layer counts as present only on the same lower layers, in containerd's only by its blob.
    """
    missing: dict[str, None] = {}
    chains = engine.chains
    for image in images:
        candidates = image.layers if engine.containerd else image.layers[chains.present(image.layers) :]
        missing.update(dict.fromkeys(layer for layer in candidates if layer not in engine.blobs))
    return list(missing)


def _with_blobs(image: Image, blobs: Mapping[str, StoredBlob], engine: Inventory) -> Image:
    """The image with the blobs that the node's store has or gets; without blobs if the node unpacks layers."""
    available = {**engine.blobs, **{diff_id: stored.blob for diff_id, stored in blobs.items()}}
    available = {} if engine.form is Form.PLAIN else available
    return replace(image, layers=tuple(replace(layer, blob=available.get(layer.diff_id)) for layer in image.layers))


def _others(engine: Inventory, images: Sequence[ImageInfo]) -> list[str]:
    """Names that belong to other images on the node."""
    taken = {tag for present in engine.images for tag in present.tags}
    return [image.name for image in images if image.name in taken and not engine.has(image)]


def _load_hint(why: str) -> str:
    return "free space below its engine's root folder" if "no space left" in why.lower() else "repeat the command"


def send(
    engine: Engine,
    names: Sequence[str],
    nodes: Sequence[Node],
    folder: Path,
    replace: bool,
    changed: Callable[[Sequence[Delivery]], None],
    packing_progress: ByteProgress,
) -> list[Delivery]:
    """Send the engine's images of these names to all nodes; returns one delivery a node, in order.

    `folder` keeps packed layers until all nodes have them. A node with another image of a name is skipped with the
    error `NameTaken`, unless `replace`. `changed` and `packing_progress` are called from several threads. Raises
    UsageError if an image is missing, EngineError if the local engine fails.
    """
    images = [image_to_send(engine, name) for name in names]
    sender = sender_id(folder)
    with Spool(folder / "spool") as spool:
        packing = Packing(engine, images, spool, len(nodes))
        deliveries: list[Delivery] = []
        deliveries += [Delivery(node, packing, folder, sender, replace, lambda: changed(deliveries)) for node in nodes]
        with ThreadPoolExecutor(len(nodes)) as pool:
            futures = [pool.submit(delivery.run) for delivery in deliveries]
            try:
                packing.pack(packing_progress)
                for future in futures:
                    future.result()
            except BaseException:
                packing.end()
                for delivery in deliveries:
                    delivery.stop()
                raise
        for delivery in deliveries:
            for image in images:
                image_id = delivery.loaded.get(image.name, image.id)
                if image_id != image.id and trust.is_trusted(image.id):
                    # A containerd store has another ID for the same image.
                    where = f"ssh://{delivery.node.name}"
                    trust.record(engine, image_id, trust.state(image.id), "send", where)
        if not any(delivery.error for delivery in deliveries):
            spool.clear()
    return deliveries


def raise_for(deliveries: Sequence[Delivery]) -> None:
    """Raises the error of a single node, or for several nodes one error that names the failed ones."""
    failed = {delivery.node.name: delivery.error for delivery in deliveries if delivery.error}
    if not failed:
        return
    first, *others = failed.values()
    if len(deliveries) == 1:
        raise first
    kind = type(first) if all(type(error) is type(first) for error in others) else SourceError
    hint = first.hint if kind is NameTaken else "repeat the command to resume"
    raise kind(f"{len(failed)} of {len(deliveries)} nodes lack the images: {', '.join(failed)}", hint=hint)


class NodesDisplay(ProgressDisplay):
    """The progress of `send`, which calls `nodes` and `packing` from several threads."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._nodes: Sequence[Delivery] = ()
        self._packed = ""
        self._meters: dict[str, Meter] = {}

    def nodes(self, nodes: Sequence[Delivery]) -> None:
        self._nodes = nodes
        for node in list(nodes):
            self.often(node.node.name, f"{node.node.name}: {_line(node)}", node.doing)

    def packing(self, done: int, total: int) -> None:
        line = f"packing, {size(done)} of {size(total)}"
        self._packed = line if done < total else ""
        self.often(HERE, f"{HERE}: {line}", "packing")

    def render(self) -> Text:
        from rich.text import Text

        nodes, now = list(self._nodes), time.monotonic()
        width = max([len(node.node.name) for node in nodes], default=0)
        lines = [f"{HERE:{width}}  {self._packed}"] if self._packed else []
        for node in nodes:
            rate = self._meters.setdefault(node.node.name, Meter()).rate(now, node.sent)
            lines.append(f"{node.node.name:{width}}  {_line(node, rate)}")
        return Text("\n".join(line[: self.width] for line in lines), no_wrap=True)


def _line(node: Delivery, rate: float = 0) -> str:
    if node.doing != "sending":
        return node.doing
    packed = f"sending, {size(node.done)} of {size(node.total)}{'' if node.complete else ' so far'}"
    if rate < 1:
        return packed
    left = f", {clock((node.total - node.done) / rate)} left" if node.complete else ""
    return f"{packed}, {size(rate)}/s{left}"
