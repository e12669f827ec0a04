"""Which packages an image has: read from its layers (dpkg's status, the metadata of Python packages)."""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections.abc import Iterator, Sequence

import zstandard

from reprokit.bundle.members import refuse
from reprokit.bundle.model import Image, Layer
from reprokit.bundle.read import Bundle
from reprokit.bundle.verify import Raw, blocks
from reprokit.untrusted.tar import Stream, members

_STATUS = re.compile(r"var/lib/dpkg/(?:status|status\.d/[^/]+)")
_PYTHON = re.compile(r"(?:.*/)?([^/]+)-([^/-]+)\.(?:dist|egg)-info/(?:METADATA|PKG-INFO)")
_WHITEOUT = ".wh."
_MOST = 64 << 20


def packages(image: Image, bundles: Sequence[Bundle]) -> dict[str, str]:
    """`dpkg:NAME` and `python:NAME` with their versions, of those layers that one of the bundles has."""
    status: dict[str, dict[str, str]] = {}
    python: dict[str, tuple[str, str]] = {}
    for layer in image.layers:
        bundle = holder(layer, bundles)
        for path, content in _files(bundle, bundle.layers[layer.diff_id]) if bundle else ():
            folder, name = posixpath.split(path)
            if name.startswith(_WHITEOUT):
                gone = folder if name == f"{_WHITEOUT}{_WHITEOUT}.opq" else f"{folder}/{name.removeprefix(_WHITEOUT)}"
                for known in (status, python):
                    for key in [key for key in known if key == gone or key.startswith(f"{gone}/")]:
                        del known[key]
            elif _STATUS.fullmatch(path):
                status[path] = dict(_dpkg(content))
            elif match := _PYTHON.fullmatch(path):
                python[path] = match[1].replace("_", "-").lower(), match[2]
    found = {f"dpkg:{name}": version for each in status.values() for name, version in each.items()}
    return found | {f"python:{name}": version for name, version in python.values()}


def holder(layer: Layer, bundles: Sequence[Bundle]) -> Bundle | None:
    """The bundle that has the layer's content."""
    return next((b for b in bundles if layer.diff_id in b.layers and b.layers[layer.diff_id].blob), None)


def _files(bundle: Bundle, layer: Layer) -> Iterator[tuple[str, bytes]]:
    """The files of a layer that tell of packages, and what it removes."""
    try:
        stream = Stream(blocks(Raw(bundle, bundle.member(layer.descriptor.digest))))
        for member in members(stream, bundle.where):
            path = posixpath.normpath(member.name)
            if posixpath.basename(path).startswith(_WHITEOUT) or _PYTHON.fullmatch(path):
                yield path, b""
            elif _STATUS.fullmatch(path) and member.isreg() and member.size <= _MOST:
                yield path, stream.read(member.size)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        refuse(f"the layer {layer.diff_id} is no tar: {error}", bundle.where)


def _dpkg(status: bytes) -> Iterator[tuple[str, str]]:
    for paragraph in status.decode("utf-8", "replace").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", paragraph, re.MULTILINE))
        if "Package" in fields and not fields.get("Status", "x installed").endswith(("deinstall", "config-files")):
            yield fields["Package"], fields.get("Version", "")


def differences(old: dict[str, str], new: dict[str, str]) -> list[tuple[str, str, str]]:
    """What is not the same: a name, and the values before and after, empty where there is none."""
    return [(n, old.get(n, ""), new.get(n, "")) for n in sorted({*old, *new}) if old.get(n, "") != new.get(n, "")]
