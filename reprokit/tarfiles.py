"""Small tars, made in memory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping


def add(tar: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644, uid: int = 0, gid: int = 0) -> None:
    """Add a file."""
    info = tarfile.TarInfo(path.lstrip("/"))
    info.size, info.mode, info.uid, info.gid = len(content), mode, uid, gid
    tar.addfile(info, io.BytesIO(content))


def tar_of(files: Mapping[str, bytes], mode: int = 0o644, uid: int = 0, gid: int = 0) -> bytes:
    """A tar of files by path; its bytes depend on nothing else."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, content in files.items():
            add(tar, path, content, mode, uid, gid)
    return stream.getvalue()
