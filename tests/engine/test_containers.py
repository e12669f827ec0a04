"""Files of containers: whose error it is when reading them fails."""

from __future__ import annotations

import errno
import io
import os
from types import SimpleNamespace

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError


class Broken(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def answering(raw: io.IOBase) -> Engine:
    """An engine whose API answers each request with these bytes."""
    answer = SimpleNamespace(status_code=200, raw=raw, close=lambda: None)
    return Engine(SimpleNamespace(_url=lambda *_: "", _get=lambda *_, **__: answer, _raise_for_status=lambda _: None))


def test_an_error_of_the_reader_is_none_of_the_engine():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError) as raised, answering(io.BytesIO(b"x")).archive("c", "/x") as blocks:
        next(blocks)
        raise full
    assert raised.value is full


def test_a_connection_that_breaks_while_a_file_is_read():
    with pytest.raises(EngineError, match=r"the engine stopped answering: .*Connection reset"):
        answering(Broken()).get_archive("c", "/x")
