"""The archive of an engine's `save`, read as a stream.

There are three layouts: Docker's own until Engine 24 (`HEX/layer.tar`, a link if a layer repeats, `manifest.json`
last), an OCI layout with uncompressed layers (Engine 25 and newer, which keeps `manifest.json`) or compressed ones
(containerd stores), and podman's (`HEX.tar` with links from the old names).
Sources: moby `image/tarexport/save.go`, containerd `images/archive/exporter.go`, containers/image
`docker/internal/tarfile`.
"""

from __future__ import annotations

import gzip
import json
import posixpath
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from reprokit.errors import EngineError
from reprokit.oci.model import BLOBS, DOCKER_MANIFEST, INDEX, blob_path, digest_of, hex_of
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, DOCUMENTS, IMAGES
from reprokit.untrusted.tar import Stream, members

_BLOCK = 1 << 20
_USTAR = slice(257, 262)


@dataclass(frozen=True)
class ArchivedLayer:
    """A layer's file in the archive; `blocks` are its uncompressed tar and can be read once."""

    path: str
    blocks: Iterator[bytes]


@dataclass(frozen=True)
class ArchivedImage:
    """An image of the archive: its names as the engine wrote them, its config, and the paths of its layers."""

    names: tuple[str, ...]
    config: bytes
    layers: tuple[str, ...]


class ArchiveReader:
    """Read `layers` to the end, then `images`. `texts` are the JSON files read so far, `blobs` the others' sizes."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._stream = Stream(blocks)
        self.texts: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self.blobs: dict[str, int] = {}
        self._named = 0

    def layers(self) -> Iterator[ArchivedLayer]:
        """Raises EngineError if the archive ends early or is not one."""
        try:
            for member in members(self._stream):
                if member.issym() or member.islnk():
                    folder = posixpath.dirname(member.name) if member.issym() else ""
                    self._links[member.name] = posixpath.normpath(posixpath.join(folder, member.linkname))
                elif member.isreg() and (layer := self._file(member.name, member.size)):
                    yield layer
        except (tarfile.TarError, EOFError) as error:
            raise _broken(str(error)) from None

    def _file(self, name: str, size: int) -> ArchivedLayer | None:
        body = self._stream.body(size)
        first = next(body, b"")
        if name.endswith(".json") or (first[:1] == b"{" and first[_USTAR] != b"ustar"):
            DOCUMENT.check(size, "bytes in a JSON document", name)
            DOCUMENTS.check(sum(map(len, self.texts.values())) + size, "bytes of JSON in an engine's archive", name)
            self.texts[name] = b"".join([first, *body])
        elif name.endswith(".tar") or posixpath.dirname(name) == "blobs/sha256":
            self.blobs[name] = size
            return ArchivedLayer(name, _unpacked(first, body, size))
        return None

    def images(self) -> list[ArchivedImage]:
        """Raises EngineError if a manifest, a config or a layer is missing."""
        try:
            if DOCKER_MANIFEST in self.texts:
                return [self._of_docker(item) for item in parsed(self.texts[DOCKER_MANIFEST])]
            return list(self._of_index(self.texts[INDEX], ""))
        except KeyError as error:
            raise _lacks(str(error.args[0])) from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise _broken(f"{type(error).__name__}: {error}") from None

    def _of_docker(self, item: dict[str, Any]) -> ArchivedImage:
        config = self.texts[self._real(item["Config"])]
        return ArchivedImage(tuple(item.get("RepoTags") or ()), config, tuple(map(self._layer, item["Layers"])))

    def _of_index(self, text: bytes, name: str) -> Iterator[ArchivedImage]:
        for entry in parsed(text)["manifests"]:
            annotations = entry.get("annotations") or {}
            named = annotations.get("io.containerd.image.name", name)
            # An index also names platforms and build attestations that the engine does not have.
            text_of = self.texts.get(blob_path(entry["digest"]))
            if text_of is None:
                continue
            self._named += 1  # indexes may name each other
            IMAGES.check(self._named, "images in an engine's archive")
            value = parsed(text_of)
            if "manifests" in value:
                yield from self._of_index(text_of, named)
            elif all("in-toto" not in layer["mediaType"] for layer in value["layers"]):
                layers = tuple(self._layer(blob_path(layer["digest"])) for layer in value["layers"])
                yield ArchivedImage((named,), self.texts[blob_path(value["config"]["digest"])], layers)

    def _real(self, path: str) -> str:
        for _ in range(len(self._links) + 1):
            if path not in self._links:
                return path
            path = self._links[path]
        raise ValueError(f"{path} is a link to itself")

    def _layer(self, path: str) -> str:
        real = self._real(path)
        if real not in self.blobs:
            raise KeyError(real)
        return real


# Docker until 24 names a layer's folder by the hash of an image of version 1 made up for it.
# Source: moby 20.10 `image/tarexport/save.go` (saveImage), `image/v1/imagev1.go` (CreateID).
_NO_CONFIG = {
    **{"Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": False},
    **{"AttachStderr": False, "Tty": False, "OpenStdin": False, "StdinOnce": False, "Env": None, "Cmd": None},
    **{"Image": "", "Volumes": None, "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": None},
}


class LayerPaths:
    """Predicts which layer an archive's file is, so that layers that are not needed cost nothing.

    `images` are the diff IDs of the images' layers. A layer that is not predicted is treated as new.
    """

    def __init__(self, images: Sequence[tuple[str, ...]]) -> None:
        self._diff_ids = {diff_id for layers in images for diff_id in layers}
        self._folders: dict[str, str] = {}
        self._tops: dict[str, set[str]] = {}
        for layers in set(images):
            chain = parent = ""
            for diff_id in layers[:-1]:
                chain = digest_of(f"{chain} {diff_id}".encode()) if chain else diff_id
                fields = {"container_config": _NO_CONFIG, "created": "1970-01-01T00:00:00Z", "layer_id": chain}
                fields |= {"parent": parent} if parent else {}
                parent = digest_of(json.dumps(fields, separators=(",", ":")).encode())
                self._folders[hex_of(parent)] = diff_id
            for top in layers[-1:]:
                self._tops.setdefault(hex_of(parent), set()).add(top)

    def diff_id(self, path: str, texts: Mapping[str, bytes]) -> str | None:
        """The layer in the file `path`; `texts` are the small files before it."""
        folder, _, name = path.rpartition("/")
        if name == "layer.tar":
            return self._folders.get(folder) or self._top(texts.get(posixpath.join(folder, "json")))
        # OCI layouts and podman name the file by its digest, which is the diff ID if it is not compressed.
        digest = f"sha256:{name.removesuffix('.tar')}"
        return digest if digest in self._diff_ids else None

    def _top(self, described: bytes | None) -> str | None:
        """The last layer's folder is named after the complete config, but its JSON names the parent."""
        try:
            parent = json.loads(described or b"").get("parent", "")
        except (ValueError, AttributeError):
            return None
        candidates = self._tops.get(parent, set())
        return next(iter(candidates)) if len(candidates) == 1 else None


def _unpacked(first: bytes, body: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The uncompressed content. Raises EngineError if it is damaged, or ends before its `size`."""
    blocks = _counted(first, body, size)
    source: Any = Stream(blocks)
    reader: Any = None
    if first[:2] == b"\x1f\x8b":
        reader = gzip.GzipFile(fileobj=source)
    elif first[:4] == b"\x28\xb5\x2f\xfd":
        reader = zstandard.ZstdDecompressor().stream_reader(source, read_size=_BLOCK, read_across_frames=True)
    try:
        yield from iter(lambda: reader.read(_BLOCK), b"") if reader else blocks
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError, EOFError) as error:
        raise _broken(str(error)) from None


def _counted(first: bytes, body: Iterator[bytes], size: int) -> Iterator[bytes]:
    missing = size - len(first)
    yield first
    for block in body:
        missing -= len(block)
        yield block
    if missing:
        raise EOFError("cut off in a layer")


def _lacks(path: str) -> EngineError:
    """The error for a file that the archive names and lacks; a containerd store saves images without blobs."""
    if not path.startswith(BLOBS):
        return _broken(f"{path} is missing")
    hint = "remove the image, and pull it with `reprokit pull` or build it again"
    return EngineError(f"the engine lacks the blob sha256:{path.removeprefix(BLOBS)} of the image", hint=hint)


def _broken(why: str) -> EngineError:
    return EngineError(
        f"the engine's archive is incomplete or damaged: {why}", hint="repeat the command, or build the image again"
    )
