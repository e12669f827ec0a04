"""The build context: a tar whose bytes depend on the files' names and content only."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from tempfile import SpooledTemporaryFile
from typing import IO

_IN_MEMORY = 1 << 20


def context_tar(files: Mapping[str, bytes]) -> IO[bytes]:
    """The files as an uncompressed tar, at its start; it is gone when closed."""
    out: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  (the caller closes it)
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(files[name]), 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    out.seek(0)
    return out
