"""Reads a bundle without trusting it.

A bundle has only one form: regular files with allowed names, headers determined by name and size, padding with zeros,
the end mark, and nothing after it. So every byte is either content that a digest covers, or fixed, and no name can lead
out of a folder. `Bundle` checks that all names, sizes and statements agree. `verify` hashes every byte on all cores
before anything is used: each layer's blob, and in the same pass the unpacked tar, whose digest is in the image's
config. If the bundle has all layers of an image, the entries of the tars are also read to check the image's canonical
digest.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import tarfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import zstandard
from pydantic import BaseModel, ValidationError

from reprokit.bundle.model import METADATA, SIGNATURE, Metadata, part_path, small_files
from reprokit.display import ByteProgress
from reprokit.errors import UsageError
from reprokit.host.disk import is_full
from reprokit.image.base.resolve import carried_name
from reprokit.oci.canonical import PassingLayers, canonical_digest
from reprokit.oci.layout import END, header
from reprokit.oci.model import (
    BLOBS,
    DOCKER_MANIFEST,
    INDEX,
    LAYER_TYPE,
    OCI_LAYOUT,
    ZSTD_LAYER_TYPE,
    Descriptor,
    Image,
    ImageConfig,
    ImageIndex,
    ImageManifest,
    Layer,
    ambiguous,
    blob_path,
)
from reprokit.untrusted.documents import first_fault, validated
from reprokit.untrusted.limits import DOCUMENT, DOCUMENTS, IMAGES, LAYERS, check_unpacked

_NAME = re.compile(
    rf"{BLOBS}[0-9a-f]{{64}}|(?:workspaces|sbom)/[A-Za-z0-9][A-Za-z0-9._-]*"
    rf"|{'|'.join(map(re.escape, (OCI_LAYOUT, INDEX, DOCKER_MANIFEST, METADATA, SIGNATURE)))}"
)
# Docker's limit is 127 layers per image; locks name some thousand files.
_MOST_MEMBERS = 1 << 16
_MOST_SIZE = 1 << 44
M = TypeVar("M", bound=BaseModel)
_MOST_LAYER = 1 << 40
# A block of zstd holds at most 128 KiB and takes at least 4 bytes.
_MOST_RATIO = (128 << 10) // 4
BLOCK = 1 << 20
# zstd's own default for level 3 is 2 MiB; this bounds a reader's memory.
_WINDOW = 1 << 23
# Less than a socket's buffer (208 KiB on Linux): the engine reads one piece while the next is unpacked.
_PIECE = 1 << 17


@dataclass(frozen=True)
class Member:
    """A file of the bundle; `offset` and `size` of its content in bytes."""

    path: str
    offset: int
    size: int


def scan(descriptor: int, where: str) -> dict[str, Member]:
    """All members of an open bundle, by path. Raises UsageError naming `where` if it is not a bundle."""
    total = os.fstat(descriptor).st_size
    members: dict[str, Member] = {}
    at = 0
    while (first := os.pread(descriptor, tarfile.BLOCKSIZE, at)).strip(b"\0"):
        path, size = _parsed(first, at, where)
        expected = header(path, size)
        if os.pread(descriptor, len(expected), at) != expected:
            refuse(f"{path}: its header is damaged", where)
        if path in members:
            refuse(f"{path} occurs twice", where)
        member = Member(path, at + len(expected), size)
        at = member.offset + size
        filling = -size % tarfile.BLOCKSIZE
        if at + filling + len(END) > total:
            refuse(f"{path}: the bundle is cut off there", where)
        if any(os.pread(descriptor, filling, at)):
            refuse(f"{path}: its padding is damaged", where)
        at += filling
        members[path] = member
        if len(members) > _MOST_MEMBERS:
            refuse(f"more than {_MOST_MEMBERS} files", where)
    if not members:
        refuse("not a bundle of `reprokit export`", where)
    if os.pread(descriptor, len(END) + 1, at) != END:
        refuse("the bundle is cut off at its end, or followed by other data", where)
    return members


def _parsed(block: bytes, at: int, where: str) -> tuple[str, int]:
    """The name and size that a header claims; the caller compares the whole header."""
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        refuse("not a bundle of `reprokit export`" if not at else f"damaged or cut off at byte {at}", where)
    if not _NAME.fullmatch(info.name):
        refuse(f"{info.name!r}: no such file can be in a bundle", where)
    if not 0 <= info.size <= _MOST_SIZE:
        refuse(f"{info.name}: a file cannot have {info.size} bytes", where)
    return info.name, info.size


def refuse(why: str, where: str) -> NoReturn:
    raise UsageError(why, where, "nothing was loaded; copy the file again, or repeat `reprokit export`")


class Bundle:
    """An open bundle, whose form has been checked. `bounds` is the maximum unpacked size of each layer, in bytes.

    `signed` are the contents of `index.json`, `reprokit.json` and the signature, if there is one. They are read only
    once, as the file may change.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        """Raises UsageError naming the file and the fault."""
        self.path, self.descriptor, self.where = path, descriptor, str(path)
        self.members: dict[str, Member] = scan(descriptor, self.where)
        self._texts: dict[str, bytes] = {}
        self.metadata = self._document(Metadata, METADATA)
        self.images = tuple(self._read_images())
        small = dict(small_files(self.images, self._text(METADATA)))
        for name, content in small.items():
            if self._text(name) != content:
                self._refuse(f"{name} contradicts the rest of the bundle")
        self.bounds = self._bounds()
        self._refuse_strangers({SIGNATURE, *small})
        self.signed = {name: self._text(name) for name in (INDEX, METADATA, SIGNATURE) if name in self.members}
        self._texts.clear()

    @property
    def layers(self) -> dict[str, Layer]:
        """Each layer once, by diff ID."""
        return {layer.diff_id: layer for image in self.images for layer in image.layers}

    def member(self, digest: str) -> Member:
        return self.members[blob_path(digest)]

    def _refuse(self, why: str) -> NoReturn:
        refuse(why, self.where)

    def _text(self, name: str) -> bytes:
        """A small file, which is read once."""
        if name not in self.members:
            self._refuse(f"{name} is missing")
        if name not in self._texts:
            member = self.members[name]
            DOCUMENT.check(member.size, f"bytes in {name}", self.where)
            self._texts[name] = os.pread(self.descriptor, member.size, member.offset)
            if len(self._texts[name]) < member.size:
                self._refuse(f"{name} is cut off")
            DOCUMENTS.check(sum(map(len, self._texts.values())), "bytes of JSON in a bundle", self.where)
        return self._texts[name]

    def _document(self, model: type[M], name: str) -> M:
        try:
            return validated(model, self._text(name), self.where)
        except ValidationError as error:
            field, why = first_fault(error)
            self._refuse(f"{name} is not valid: {field}: {why}")

    def _read_images(self) -> Iterator[Image]:
        """The images in the index, manifests and configs. Their digests are checked later."""
        absent, total = set(self.metadata.absent), 0
        entries = self._document(ImageIndex, INDEX).manifests
        if len(entries) != len(self.metadata.images) or not (entries or self.metadata.inputs):
            self._refuse(f"{INDEX} and {METADATA} name different images")
        IMAGES.check(len(entries), "images in a bundle", self.where)
        for entry, described in zip(entries, self.metadata.images, strict=True):
            manifest = self._document(ImageManifest, blob_path(entry.digest))
            config = self._text(name := blob_path(manifest.config.digest))
            total += len(config)  # counted for each name, because each is parsed and hashed
            DOCUMENTS.check(total, "bytes of image configs in a bundle", self.where)
            diff_ids = self._document(ImageConfig, name).rootfs.diff_ids
            if key := ambiguous(config):
                self._refuse(f"{described.name}: readers understand the key {key!r} of its config differently")
            LAYERS.check(len(diff_ids), f"layers in the image {described.name}", self.where)
            if len(manifest.layers) != len(diff_ids):
                self._refuse(f"{described.name}: its manifest and its config have different numbers of layers")
            pairs = zip(manifest.layers, diff_ids, strict=True)
            layers = tuple(self._layer(blob, diff_id, diff_id in absent) for blob, diff_id in pairs)
            image = Image(described.name, config, layers)
            if image.id != described.id:
                self._refuse(f"{described.name}: its ID in {METADATA} is {described.id}, expected {image.id}")
            yield image

    def _layer(self, descriptor: Descriptor, diff_id: str, absent: bool) -> Layer:
        if absent:
            if descriptor != Descriptor(LAYER_TYPE, diff_id, descriptor.size):
                self._refuse(f"the layer {diff_id} is marked as excluded but has a blob")
            return Layer(diff_id, descriptor.size, None)
        if descriptor.media_type != ZSTD_LAYER_TYPE:
            self._refuse(f"the layer {diff_id} is {descriptor.media_type}, expected {ZSTD_LAYER_TYPE}")
        return Layer(diff_id, 0, descriptor)

    def _bounds(self) -> dict[str, int]:
        """The maximum unpacked size of each layer in the bundle, by its image's size in the metadata."""
        bounds: dict[str, int] = {}
        for image, described in zip(self.images, self.metadata.images, strict=True):
            packed = sum(layer.blob.size for layer in image.layers if layer.blob)
            if described.packed != packed:
                self._refuse(f"{image.name}: {METADATA} has {described.packed} bytes of layers, expected {packed}")
            left = described.size - sum(layer.size for layer in image.layers if not layer.blob)
            if not 0 <= left <= min(_MOST_LAYER, packed * _MOST_RATIO):
                self._refuse(f"{image.name}: layers of {packed} bytes cannot unpack to {left}, as {METADATA} claims")
            for layer in image.layers:
                if layer.blob:
                    bounds[layer.diff_id] = min(left, bounds.get(layer.diff_id, left))
        return bounds

    def _refuse_strangers(self, small: set[str]) -> None:
        """Refuse files that nothing names, or with another size than stated; `small` files have been compared."""
        layers = [layer for image in self.images for layer in image.layers]
        if len({image.name for image in self.images}) != len(self.images):
            self._refuse("two images have the same name")
        blobs: dict[str, Descriptor] = {}
        for layer in layers:
            if blobs.setdefault(layer.diff_id, layer.descriptor) != layer.descriptor:
                self._refuse(f"the layer {layer.diff_id} has two different descriptors")
        if left_over := set(self.metadata.absent) - set(blobs):
            self._refuse(f"{min(left_over)} is marked as excluded, but no image has it")
        for part in self.metadata.parts:
            if part.path != part_path(part.kind, part.name):
                self._refuse(f"{part.path} cannot be the {part.kind} {part.name!r}")
        inputs = self.metadata.inputs
        sizes = [(blob_path(layer.blob.digest), layer.blob.size) for layer in layers if layer.blob]
        sizes += [(part.path, part.size) for part in self.metadata.parts]
        sizes += [(blob_path(digest), size) for digest, size in (inputs.blobs if inputs else {}).items()]
        for path, size in sizes:
            if path not in self.members or self.members[path].size != size:
                self._refuse(f"{path} is missing, or has another size than the bundle says")
        bases = inputs.bases if inputs else ()
        if missing := {carried_name(digest) for digest in bases} - {image.name for image in self.images}:
            self._refuse(f"the base image {min(missing)} is missing")
        texts = [image.recipe for image in self.metadata.images if image.recipe_text]
        texts += [text.name for text in inputs.recipes] if inputs else []
        beside = [(file.recipe, file.path) for file in self.metadata.beside]
        if len(beside) > len(set(beside)) or {recipe for recipe, _ in beside} - {*texts}:
            self._refuse("a file beside a recipe occurs twice, or belongs to no recipe of the bundle")
        if strange := set(self.members) - small - {path for path, _ in sizes}:
            self._refuse(f"{min(strange)} is not named by anything")


@contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """Open a bundle and check its form. Raises UsageError naming the file and the fault."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read the bundle: {error.strerror}", str(path)) from None
    with file:
        try:
            yield Bundle(path, file.fileno())
        except OSError as error:
            if error.filename is None and error.errno is not None and not is_full(error):
                raise UsageError(f"cannot read the bundle: {error.strerror}", str(path)) from None
            raise


@dataclass(frozen=True)
class VerifiedBundle:
    """A bundle with verified digests, as a `LayerSource`; `sizes` are its layers' unpacked sizes by diff ID."""

    bundle: Bundle
    sizes: dict[str, int]

    def blocks(self, diff_id: str, plain: bool, count: Callable[[int], None]) -> Iterator[bytes]:
        """Raises UsageError if the bundle has changed since it was verified."""
        member = self.bundle.member(self.bundle.layers[diff_id].descriptor.digest)
        raw = Reader(self.bundle, member, seen=count)
        size = self.sizes[diff_id] if plain else member.size
        read = unpacked(raw).read if plain else raw.read
        try:
            while size > 0 and (block := read(min(_PIECE if plain else BLOCK, size))):
                size -= len(block)
                yield block
            size = size or len(read(1))
        except zstandard.ZstdError:
            size = -1
        if size:
            raise UsageError("the bundle was changed while it was read", self.bundle.where, "repeat the command")


def verify(bundle: Bundle, progress: ByteProgress = lambda done, total: None) -> VerifiedBundle:
    """Hash everything; `progress` gets bytes of the bundle.

    Raises UsageError naming the damage. A layer that unpacks to more than the metadata allows is abandoned at once.
    """
    layers = [layer for layer in bundle.layers.values() if layer.blob]
    extras = {part.path: part.digest for part in bundle.metadata.parts}
    if bundle.metadata.inputs:
        extras |= {blob_path(digest): digest for digest in bundle.metadata.inputs.blobs}
    sizes_of_extras = [bundle.members[path].size for path in extras]
    stated = [
        (image, described.canonical)
        for image, described in zip(bundle.images, bundle.metadata.images, strict=True)
        if described.canonical and all(layer.blob for layer in image.layers)
    ]
    new = [image for image, _ in stated if not canonical_digest(image.diff_ids, {})]
    work = _Work(bundle, progress, sum(sizes_of_extras) + sum(layer.descriptor.size for layer in layers))
    work.passing = {diff_id for image in new for diff_id in image.diff_ids}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # The largest first, so that none of them runs alone at the end.
        sizes = {
            layer.diff_id: pool.submit(work.layer, layer)
            for layer in sorted(layers, key=lambda layer: -layer.descriptor.size)
        }
        jobs: list[Future[Any]] = [
            *sizes.values(),
            *(
                pool.submit(Reader(bundle, bundle.members[path], digest, work.count).finish)
                for path, digest in extras.items()
            ),
        ]
        try:
            for job in as_completed(jobs):
                job.result()
        finally:
            work.stopped = True
            for job in jobs:
                job.cancel()
    unpacked_sizes = {diff_id: job.result() for diff_id, job in sizes.items()}
    for image, described in zip(bundle.images, bundle.metadata.images, strict=True):
        total = sum(layer.size if layer.blob is None else unpacked_sizes[layer.diff_id] for layer in image.layers)
        if total != described.size:
            refuse(f"{image.name}: its layers have {total} bytes, but the metadata says {described.size}", bundle.where)
    for image in new:
        work.entries.keep(image.diff_ids)
    for image, claimed in stated:
        # Layers beyond a limit have no canonical digest: their claim is neither accepted nor refused.
        if (digest := canonical_digest(image.diff_ids, image.settings)) not in ("", claimed):
            refuse(f"{image.name}: its canonical digest is {digest}, but the metadata says {claimed}", bundle.where)
    return VerifiedBundle(bundle, unpacked_sizes)


def unpacked(raw: Reader) -> zstandard.ZstdDecompressionReader:
    """The uncompressed content of a blob; reading it raises zstandard's error."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    return unpacker.stream_reader(raw, read_size=BLOCK, read_across_frames=True)  # type: ignore[arg-type]


def blocks(raw: Reader) -> Iterator[bytes]:
    """The uncompressed content of a blob that may not have been verified.

    Raises zstandard's error, UsageError if it unpacks to suspiciously much.
    """
    content, size = unpacked(raw), 0
    while block := content.read(BLOCK):
        size += len(block)
        check_unpacked(size, raw.member.size, raw.bundle.where)
        yield block


class Reader:
    """A member as a file; `seen` is called with the number of bytes of each read.

    With a `digest`, the read at the end raises UsageError if the content has another digest.
    """

    def __init__(
        self, bundle: Bundle, member: Member, digest: str = "", seen: Callable[[int], None] = lambda count: None
    ) -> None:
        self.bundle, self.member, self._digest, self._seen = bundle, member, digest, seen
        self._at, self._end, self._hashed = member.offset, member.offset + member.size, hashlib.sha256()

    def read(self, size: int) -> bytes:
        block = os.pread(self.bundle.descriptor, min(size, self._end - self._at), self._at)
        self._at += len(block)
        if self._digest:
            self._hashed.update(block)
            if not block and size and (actual := f"sha256:{self._hashed.hexdigest()}") != self._digest:
                why = (
                    f"is damaged, or was changed since it was verified: its digest is {actual}, expected {self._digest}"
                )
                refuse(f"{self.member.path} {why}", self.bundle.where)
        self._seen(len(block))
        return block

    def finish(self) -> None:
        """Read what is left. Raises UsageError."""
        while self.read(BLOCK):
            pass


class _Stopped(Exception):
    """Another thread has found damage, or the user has interrupted."""


class _Work:
    def __init__(self, bundle: Bundle, progress: ByteProgress, total: int) -> None:
        self.bundle, self.stopped = bundle, False
        self._progress, self._done, self._total, self._unpacked = progress, 0, total, 0
        self._lock = threading.Lock()
        self.entries, self.passing = PassingLayers(), set[str]()

    def layer(self, layer: Layer) -> int:
        """The uncompressed size."""
        digest = layer.descriptor.digest
        raw = Reader(self.bundle, self.bundle.member(digest), digest, self.count)
        content, plain, size = unpacked(raw), hashlib.sha256(), 0
        bound, buffers = self.bundle.bounds[layer.diff_id], itertools.cycle((bytearray(BLOCK), bytearray(BLOCK)))
        what, where = f"the layer {layer.diff_id}", self.bundle.where
        read = self.entries.begin(layer.diff_id) if layer.diff_id in self.passing else lambda block: None
        hashed: Future[None] | None = None
        # One block is hashed while the next is unpacked: a single layer often is most of the image.
        with ThreadPoolExecutor(1) as hashing:
            try:
                while count := content.readinto(buffer := next(buffers)):
                    if hashed:
                        hashed.result()
                    hashed = hashing.submit(plain.update, memoryview(buffer)[:count])
                    read(bytes(memoryview(buffer)[:count]))
                    size += count
                    if size > bound:
                        refuse(f"{what} unpacks to more than the {bound} bytes that the metadata allows", where)
                    with self._lock:
                        self._unpacked += count
                    check_unpacked(self._unpacked, self._total, where)
            except zstandard.ZstdError:
                refuse(f"{what} is damaged: it cannot be unpacked", where)
            finally:
                read(b"")
        raw.finish()
        if (actual := f"sha256:{plain.hexdigest()}") != layer.diff_id:
            refuse(f"{what} is damaged: its digest is {actual}", where)
        return size

    def count(self, count: int) -> None:
        if self.stopped:
            raise _Stopped
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)
