"""The layers and packages of images, and the comparison of two images."""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from reprokit.bundle.model import ImageMetadata
from reprokit.bundle.read import Bundle, Reader, blocks, refuse
from reprokit.engine.info import HistoryStep
from reprokit.image.shell import block_of, without_boilerplate, without_step
from reprokit.oci.model import Image, Layer
from reprokit.oci.read import NO_LAYER
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import ENTRIES, PACKAGES, check_unpacked
from reprokit.untrusted.tar import Stream, members

_SHELL = "/bin/sh -c "
_STATUS = re.compile(r"var/lib/dpkg/(?:status|status\.d/[^/]+)")
_PYTHON = re.compile(r"(?:.*/)?([^/]+)-([^/-]+)\.(?:dist|egg)-info/(?:METADATA|PKG-INFO)")
_WHITEOUT = ".wh."


@dataclass(frozen=True)
class LayerRow:
    """A layer: `packed` bytes in the bundle, None if it is excluded; `size` uncompressed, None if unknown."""

    diff_id: str
    packed: int | None
    size: int | None
    instruction: str


def rows(image: Image) -> list[LayerRow]:
    """The layers of an image, from the base up."""
    made = zip(image.layers, instructions(image.config, len(image.layers)), strict=True)
    return [
        LayerRow(layer.diff_id, layer.blob.size if layer.blob else None, layer.size or None, text)
        for layer, text in made
    ]


def instructions(config: bytes, count: int) -> list[str]:
    """The Dockerfile's line for each of `count` layers; empty texts if the config's history does not match."""
    value = parsed(config)
    history = value.get("history") if isinstance(value, dict) else None
    entries = history if isinstance(history, list) else []
    made = [_plain(e) for e in entries if isinstance(e, dict) and not e.get("empty_layer")]
    return made if len(made) == count else [""] * count


def instructions_of(history: Sequence[HistoryStep], count: int) -> list[str]:
    """As `instructions`, from an engine's history: newest step first, steps without a layer not marked."""
    made = [_plain({"created_by": step.command, "comment": step.comment}) for step in reversed(history)]
    made = [text for text in made if not NO_LAYER.match(text)]
    return made if len(made) == count else [""] * count


def _plain(entry: Mapping[str, Any]) -> str:
    """The instruction without the classic builder's prefix (build arguments, shell), and with the name of its block."""
    text = without_step(str(entry.get("created_by") or entry.get("comment") or ""))
    if text.startswith(("|", _SHELL)):
        text = text.partition(_SHELL)[2] or text
    text = text.removeprefix("#(nop) ").strip()
    if block := block_of(text):
        text = f"block {block}: {without_boilerplate(text.removeprefix('RUN ').removeprefix(_SHELL))}"
    return "".join(c if c.isprintable() else " " for c in text)


def packages(image: Image, bundles: Sequence[Bundle]) -> dict[str, str]:
    """The versions of `dpkg:NAME` and `python:NAME` in the layers that the bundles have.

    Raises UsageError if a layer is not a tar, or if the layers exceed a limit.
    """
    removed: dict[str, int] = {}
    lists: dict[str, tuple[int, bytes]] = {}
    for number, path, content in _files(image, bundles):
        if gone := _removed(path):
            removed[gone] = number
        else:
            lists[path] = number, content
    versions: dict[str, str] = {}
    for path, (number, content) in lists.items():
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
    """The differing names with their old and new values, "" for a missing one."""
    return [(n, old.get(n, ""), new.get(n, "")) for n in sorted({*old, *new}) if old.get(n, "") != new.get(n, "")]


Change = tuple[str, str, str]


@dataclass(frozen=True)
class Compared:
    """Layers that only one image has, and changed values as (name, old, new), "" for a missing one.

    `size` are unpacked bytes. `unknown` counts layers that both bundles exclude: their packages are unknown.
    """

    size: tuple[int, int]
    removed: list[LayerRow]
    added: list[LayerRow]
    pins: list[Change]
    settings: list[Change]
    packages: list[Change]
    unknown: int

    @property
    def same(self) -> bool:
        return not (self.removed or self.added or self.pins or self.settings)


def compare(one: Bundle, other: Bundle, left: Image | None, right: Image | None) -> Compared:
    """Compare two images; a missing image has no layers."""
    before, after = (rows(image) if image else [] for image in (left, right))
    old, new = ({row.diff_id for row in layers} for layers in (before, after))
    removed = [row for row in before if row.diff_id not in new]
    added = [row for row in after if row.diff_id not in old]
    changed, both, images = removed or added, (one, other), (left, right)
    described = [_described(one, left), _described(other, right)]
    nowhere = {layer.diff_id for image in images if image for layer in image.layers if not holder(layer, both)}
    sizes = [metadata.size if metadata else 0 for metadata in described]
    return Compared(
        size=(sizes[0], sizes[1]),
        removed=removed,
        added=added,
        pins=differences(*(metadata.pins if metadata else {} for metadata in described)),
        settings=differences(_flat_settings(left), _flat_settings(right)),
        packages=differences(*(packages(image, both) if image else {} for image in images)) if changed else [],
        unknown=len(nowhere) if changed else 0,
    )


def _described(bundle: Bundle, image: Image | None) -> ImageMetadata | None:
    return next((metadata for metadata in bundle.metadata.images if image and metadata.name == image.name), None)


def _flat_settings(image: Image | None) -> dict[str, str]:
    """The settings with ENV and labels as single entries."""
    of_image = image.settings if image else {}
    flat = {key: str(of_image[key]) for key in ("WorkingDir", "User", "Entrypoint", "Cmd") if of_image.get(key)}
    env = of_image.get("Env")
    flat |= dict(str(entry).partition("=")[::2] for entry in env) if isinstance(env, list) else {}
    labels = of_image.get("Labels")
    return flat | ({f"label {k}": str(v) for k, v in labels.items()} if isinstance(labels, dict) else {})
