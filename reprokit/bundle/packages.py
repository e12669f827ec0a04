"""The packages of an image, read from its layers (dpkg's status, the metadata of Python packages)."""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections.abc import Iterator, Sequence

import zstandard

from reprokit.bundle.canonical_tar import refuse
from reprokit.bundle.read import Bundle
from reprokit.bundle.verify import Reader, blocks
from reprokit.oci.model import Image, Layer
from reprokit.untrusted.limits import ENTRIES, PACKAGES, check_unpacked
from reprokit.untrusted.tar import Stream, members

_STATUS = re.compile(r"var/lib/dpkg/(?:status|status\.d/[^/]+)")
_PYTHON = re.compile(r"(?:.*/)?([^/]+)-([^/-]+)\.(?:dist|egg)-info/(?:METADATA|PKG-INFO)")
_WHITEOUT = ".wh."


def packages(image: Image, bundles: Sequence[Bundle]) -> dict[str, str]:
    """The versions of `dpkg:NAME` and `python:NAME` in the layers that one of the bundles has.

    Raises UsageError if a layer is not a tar, or if the layers exceed a limit.
    """
    removed: dict[str, int] = {}
    found: dict[str, tuple[int, bytes]] = {}
    for number, path, content in _files(image, bundles):
        if gone := _removed(path):
            removed[gone] = number
        else:
            found[path] = number, content
    versions: dict[str, str] = {}
    for path, (number, content) in found.items():
        if any(removed.get(folder, number) > number for folder in _above(path)):
            continue
        if match := _PYTHON.fullmatch(path):
            versions[f"python:{match[1].replace('_', '-').lower()}"] = match[2]
        else:
            versions |= {f"dpkg:{name}": version for name, version in _dpkg(content)}
    return versions


def _files(image: Image, bundles: Sequence[Bundle]) -> Iterator[tuple[int, str, bytes]]:
    """Each layer's number with the path and content of its package lists and whiteouts.

    The limits apply to all layers of the image together.
    """
    most = ENTRIES.most
    entries = unpacked = packed = kept = 0
    sizes: dict[str, int] = {}

    def content(reader: Reader) -> Iterator[bytes]:
        nonlocal unpacked
        for block in blocks(reader):
            unpacked += len(block)
            check_unpacked(unpacked, packed, reader.bundle.where)
            yield block

    for number, layer in enumerate(image.layers):
        if (bundle := holder(layer, bundles)) is None:
            continue
        member = bundle.member(bundle.layers[layer.diff_id].descriptor.digest)
        packed += member.size
        stream = Stream(content(Reader(bundle, member)))
        try:
            for entry in members(stream, bundle.where):
                entries += 1
                if entries > most:
                    ENTRIES.check(entries, "entries in the layers of an image", bundle.where)
                path, text = posixpath.normpath(entry.name), b""
                if _STATUS.fullmatch(path) and entry.isreg():
                    PACKAGES.check(entry.size, f"bytes in {path}", bundle.where)
                    text = stream.read(entry.size)
                elif not posixpath.basename(path).startswith(_WHITEOUT) and not _PYTHON.fullmatch(path):
                    continue
                kept += len(path) + len(text) - sizes.get(path, 0)
                sizes[path] = len(path) + len(text)
                PACKAGES.check(kept, "bytes of package lists in an image", bundle.where)
                yield number, path, text
        except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
            refuse(f"the layer {layer.diff_id} is not a tar: {error}", bundle.where)


def _removed(path: str) -> str:
    """The path that a whiteout removes from the layers below; empty for other files."""
    folder, name = posixpath.split(path)
    if not name.startswith(_WHITEOUT):
        return ""
    removed = name.removeprefix(_WHITEOUT)
    return folder if removed == f"{_WHITEOUT}.opq" else posixpath.join(folder, removed)


def _above(path: str) -> Iterator[str]:
    """The path and all its parents."""
    while path not in ("", "/"):
        yield path
        path = posixpath.dirname(path)


def holder(layer: Layer, bundles: Sequence[Bundle]) -> Bundle | None:
    """The bundle that has the layer's content."""
    return next((b for b in bundles if layer.diff_id in b.layers and b.layers[layer.diff_id].blob), None)


def _dpkg(status: bytes) -> Iterator[tuple[str, str]]:
    for paragraph in status.decode("utf-8", "replace").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", paragraph, re.MULTILINE))
        if "Package" in fields and not fields.get("Status", "x installed").endswith(("deinstall", "config-files")):
            yield fields["Package"], fields.get("Version", "")


def differences(old: dict[str, str], new: dict[str, str]) -> list[tuple[str, str, str]]:
    """The differing names with their values before and after, empty if there is none."""
    return [(n, old.get(n, ""), new.get(n, "")) for n in sorted({*old, *new}) if old.get(n, "") != new.get(n, "")]
