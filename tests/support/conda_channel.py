"""A local conda channel with packages of both formats."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import zstandard
from rattler.index import index_fs

PLACEHOLDER = "/opt/anaconda1anaconda2anaconda3_placehold_placehold_placehold_placehold_placehold_placehold"


def make_package(
    channel: Path, name: str, version: str, depends: tuple[str, ...] = (), subdir: str = "linux-64", old: bool = False
) -> Path:
    """A package whose program prints its name, version and where it is installed; `old` is the format .tar.bz2."""
    program = f"#!/bin/sh\necho {name} {version} in {PLACEHOLDER}\n".encode()
    path = {
        "_path": f"bin/{name}", "path_type": "hardlink", "sha256": hashlib.sha256(program).hexdigest(),
        "size_in_bytes": len(program), "prefix_placeholder": PLACEHOLDER, "file_mode": "text",
    }  # fmt: skip
    index = {
        "name": name, "version": version, "build": "h0_0", "build_number": 0, "subdir": subdir,
        "depends": list(depends), **({"noarch": "generic"} if subdir == "noarch" else {}),
    }  # fmt: skip
    info = {"info/index.json": json.dumps(index).encode()}
    info["info/paths.json"] = json.dumps({"paths": [path], "paths_version": 1}).encode()
    content = {f"bin/{name}": program}
    folder, stem = channel / subdir, f"{name}-{version}-h0_0"
    folder.mkdir(parents=True, exist_ok=True)
    if old:
        (folder / f"{stem}.tar.bz2").write_bytes(_tar({**info, **content}, "w:bz2"))
        return folder / f"{stem}.tar.bz2"
    with zipfile.ZipFile(folder / f"{stem}.conda", "w") as outer:
        outer.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        for part, files in (("pkg", content), ("info", info)):
            outer.writestr(f"{part}-{stem}.tar.zst", zstandard.ZstdCompressor().compress(_tar(files, "w")))
    return folder / f"{stem}.conda"


def index_channel(channel: Path) -> None:
    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    asyncio.run(index_fs(channel))


def _tar(files: dict[str, bytes], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o775
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()
