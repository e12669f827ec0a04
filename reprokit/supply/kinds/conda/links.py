"""What the files of a conda package become in an environment, as conda's documentation describes it.

Old packages have the lists `files` and `has_prefix` in place of `paths.json`. The files of a Python package for all
platforms (`noarch: python`) get their places from the environment's Python, and programs for its entry points.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.supply.kinds.conda.archive import CondaArchive, PackedFile
from reprokit.supply.kinds.conda.prefix import PLACE, Prefix
from reprokit.untrusted.limits import DEPTH

_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # bytes; of Linux
_OLD_PREFIX = "/opt/anaconda1anaconda2anaconda3"
_PREFIX_LINE = re.compile(r'(?:"([^"]+)"|([^" ]+)) (text|binary) (?:"([^"]+)"|([^"]+))')
_ENTRY_POINT = re.compile(r"\s*([^\s=/]+)\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*")
_PROGRAM = """\
#!{place}/bin/python{version}
# -*- coding: utf-8 -*-
import re
import sys

from {module} import {name}

if __name__ == '__main__':
\tsys.argv[0] = re.sub(r'(-script\\.pyw?|\\.exe)?$', '', sys.argv[0])
\tsys.exit({function}())
"""
_KEPT = ("sha256", "size_in_bytes", "prefix_placeholder", "file_mode", "no_link")


@dataclass(frozen=True, slots=True)
class Link:
    """A file, symbolic link or folder of the environment. `content` is None for a folder."""

    path: str
    content: PackedFile | bytes | None
    size: int = 0
    prefix: Prefix | None = None


@dataclass(frozen=True)
class CondaPython:
    """The environment's Python, for packages that are for all platforms."""

    version: str
    site_packages: str

    @classmethod
    def of(cls, archive: CondaArchive) -> CondaPython:
        """Raises ValueError."""
        match = re.match(r"(\d{1,4})\.(\d{1,4})", archive.package.version)
        if match is None:
            raise ValueError(f"Python {archive.package.version} has no minor version")
        return cls(match[0], archive.index.get("python_site_packages_path") or f"lib/python{match[0]}/site-packages")

    def place(self, path: str) -> str:
        first, _, rest = path.partition("/")
        return {"site-packages": f"{self.site_packages}/{rest}", "python-scripts": f"bin/{rest}"}.get(first, path)

    def programs(self, entry_points: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for line in entry_points:
            match = _ENTRY_POINT.fullmatch(line)
            if match is None:
                raise ValueError(f"{line[:100]!r} is not an entry point")
            name, _, _ = match[3].partition(".")
            text = _PROGRAM.format(
                place=PLACE, version=self.version, module=match[2], name=name, function=match[3]
            )  # fmt: skip
            yield f"bin/{match[1]}", text.encode()


def links(archive: CondaArchive, python: CondaPython | None) -> Iterator[tuple[Link, dict[str, Any]]]:
    """Each file with what conda's record says about it. Raises ValueError and the like."""
    entries = archive.entries()
    noarch = archive.index.get("noarch") == "python"
    if noarch and python is None:
        raise ValueError("it needs a Python in the environment")
    for stated in _stated(archive, entries):
        path = stated["_path"]
        placed = python.place(path) if noarch and python else path
        yield _link(archive, placed, stated, entries.get(path))
    if noarch and python and "info/link.json" in entries:
        points = archive.document(entries["info/link.json"])["noarch"].get("entry_points") or []
        for path, content in python.programs(points):
            sums = {"sha256": hashlib.sha256(content).hexdigest(), "size_in_bytes": len(content)}
            link = Link(checked(path, archive), content, len(content))
            yield link, {"_path": path, "path_type": "unix_python_entry_point", **sums}


def checked(path: str, archive: CondaArchive) -> str:
    """The path, if it is a plain one below the environment; it is counted. Raises ValueError, UsageError."""
    archive.taken.link(archive.package.file)
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in path:
        raise ValueError(f"{path[:100]!r} is not a path in the environment")
    raw = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if sum(raw) + len(raw) > _LONGEST_PATH or max(raw) > _LONGEST_NAME:
        raise ValueError(f"{path[:100]!r} is too long")
    DEPTH.check(len(parts) - 1, "folders inside each other in a conda package", archive.package.file)
    return path


def _stated(archive: CondaArchive, entries: dict[str, PackedFile]) -> Iterator[dict[str, Any]]:
    if "info/paths.json" in entries:
        yield from archive.document(entries["info/paths.json"])["paths"]
        return
    if "info/files" not in entries:
        raise ValueError("it has no list of its files")
    prefixes = {}
    if "info/has_prefix" in entries:
        for line in archive.text(entries["info/has_prefix"]).decode().splitlines():
            if match := _PREFIX_LINE.fullmatch(line.strip()):
                prefixes[match[4] or match[5]] = (match[1] or match[2], match[3])
            elif line.strip():
                prefixes[line.strip()] = (_OLD_PREFIX, "text")
    for path in archive.text(entries["info/files"]).decode().splitlines():
        if path:
            stated = {"_path": path, "path_type": "hardlink"}
            placeholder, mode = prefixes.get(path, (None, None))
            yield {**stated, "prefix_placeholder": placeholder, "file_mode": mode} if placeholder else stated


def _link(
    archive: CondaArchive, path: str, stated: dict[str, Any], entry: PackedFile | None
) -> tuple[Link, dict[str, Any]]:
    checked(path, archive)
    if entry is None:
        if stated.get("path_type") != "directory":
            raise ValueError(f"{path[:100]!r} is not in the archive")
        return Link(path, None), {"_path": path, "path_type": "directory"}
    kept = {key: stated[key] for key in _KEPT if isinstance(stated.get(key), (str, int))}
    record = {"_path": path, "path_type": "hardlink", **kept}
    if entry.target is not None:
        return Link(path, entry), {**record, "path_type": "softlink"}
    if not (placeholder := stated.get("prefix_placeholder")):
        return Link(path, entry, entry.size), record
    prefix = Prefix(placeholder.encode(), stated.get("file_mode") == "binary")
    size, sha256 = prefix.measured(entry)
    return Link(path, entry, size, prefix), {**record, "sha256_in_prefix": sha256, "size_in_bytes": size}
