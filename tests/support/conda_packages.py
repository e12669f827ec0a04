"""conda packages of any content, also of a stranger's, in both formats."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import zstandard

from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.store import Store

PLACEHOLDER = "/opt/anaconda1anaconda2anaconda3_placehold_placehold"


def member(
    path: str, content: bytes = b"", mode: int = 0o644, kind: bytes = tarfile.REGTYPE, target: str = ""
) -> bytes:
    """One entry of a tar."""
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.type, info.linkname = len(content), mode, kind, target
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def linked(path: str, target: str) -> bytes:
    return member(path, kind=tarfile.SYMTYPE, target=target)


def stated(path: str, content: bytes = b"", mode: str = "", kind: str = "hardlink") -> dict[str, Any]:
    """What `paths.json` has of a path; `mode` is that of a file with the placeholder."""
    known: dict[str, Any] = {"_path": path, "path_type": kind}
    if kind == "hardlink":
        known |= {"sha256": hashlib.sha256(content).hexdigest(), "size_in_bytes": len(content)}
    return {**known, "prefix_placeholder": PLACEHOLDER, "file_mode": mode} if mode else known


def index(name: str, depends: Sequence[str] = (), version: str = "1.0", **more: Any) -> bytes:
    known = {"name": name, "version": version, "build": "0", "build_number": 0, "subdir": "noarch"}
    return json.dumps({**known, "depends": list(depends), **more}).encode()


def old_format(entries: Sequence[bytes], info: Mapping[str, bytes]) -> bytes:
    parts = [*(member(f"info/{name}", content) for name, content in info.items()), *entries]
    return bz2.compress(b"".join(parts) + bytes(1024))


def new_format(entries: Sequence[bytes], info: Mapping[str, bytes], stem: str = "x-1.0-0") -> bytes:
    tars = {"info": [member(f"info/{name}", content) for name, content in info.items()], "pkg": entries}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as outer:
        outer.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        for name, parts in tars.items():
            outer.writestr(f"{name}-{stem}.tar.zst", zstandard.compress(b"".join(parts) + bytes(1024)))
    return out.getvalue()


def kept(store: Store, name: str, content: bytes, version: str = "1.0", end: str = ".tar.bz2") -> CondaPackage:
    """A package in the store, with its entry of a lock."""
    sha256 = hashlib.sha256(content).hexdigest()
    path = store.path(sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    known = {"name": name, "version": version, "build": "0", "subdir": "noarch", "channel": "c"}
    return CondaPackage(**known, file=f"{name}-{version}-0{end}", sha256=sha256, size=len(content))  # type: ignore[arg-type]


def package(
    store: Store, name: str, entries: Sequence[bytes], paths: Sequence[Any], depends: Sequence[str] = (), **more: Any
) -> CondaPackage:
    """A package of the older format with this list of paths; `more` replaces files of `info/`, without `.json`."""
    listed = json.dumps({"paths": list(paths), "paths_version": 1}).encode()
    info = {"index.json": index(name, depends), "paths.json": listed}
    return kept(store, name, old_format(entries, {**info, **{f"{key}.json": value for key, value in more.items()}}))
