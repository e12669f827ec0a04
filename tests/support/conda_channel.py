"""A local conda channel with packages of both formats."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from rattler.index import index_fs

from tests.support.conda_packages import index, member, new_format, old_format, stated

PLACEHOLDER = "/opt/anaconda1anaconda2anaconda3_placehold_placehold_placehold_placehold_placehold_placehold"


def make_package(
    channel: Path, name: str, version: str, depends: tuple[str, ...] = (), subdir: str = "linux-64", old: bool = False
) -> Path:
    """A package whose program prints its name, version and where it is installed; `old` is the format .tar.bz2."""
    program = f"#!/bin/sh\necho {name} {version} in {PLACEHOLDER}\n".encode()
    path = {**stated(f"bin/{name}", program, "text"), "prefix_placeholder": PLACEHOLDER}
    more = {"noarch": "generic"} if subdir == "noarch" else {}
    info = {"index.json": index(name, depends, version, build="h0_0", subdir=subdir, **more)}
    info["paths.json"] = json.dumps({"paths": [path], "paths_version": 1}).encode()
    entries = [member(f"bin/{name}", program, 0o775)]
    stem = f"{name}-{version}-h0_0"
    file = channel / subdir / f"{stem}.{'tar.bz2' if old else 'conda'}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(old_format(entries, info) if old else new_format(entries, info, stem))
    return file


def index_channel(channel: Path) -> None:
    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    asyncio.run(index_fs(channel))
