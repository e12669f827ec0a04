"""Tars as engines read them: headers that readers understand differently are refused, or read as GNU tar does."""

from __future__ import annotations

import io
import subprocess
import tarfile

import pytest

from reprokit.untrusted.tar import members

X, G, SOLARIS, LONG = tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME
END = bytes(1024)


def header(
    name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, magic=b"ustar\x0000", prefix=b"", last=b""
) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[257:265], block[345 : 345 + len(prefix)] = magic, prefix
    block[512 - len(last) :] = last
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def extended(kind: bytes, content: bytes) -> bytes:
    return header("h", len(content), kind) + padded(content)


def pax(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n"
    length = next(n for n in range(len(rest), len(rest) + 9) if len(str(n)) + len(rest) == n)
    return f"{length}{rest}".encode()


PATH, TIME = pax("path", "usr/bin/tool"), pax("atime", "1")


AMBIGUOUS, FOLDER = r"readers understand differently|of Solaris", "a file or a folder"
HIDDEN = padded(header("hidden"))


@pytest.mark.parametrize(
    ("tar", "message"),
    [
        (extended(X, PATH) + extended(X, TIME) + header("doc"), AMBIGUOUS),
        (extended(X, PATH) + extended(G, TIME) + header("doc"), AMBIGUOUS),
        (extended(X, PATH) + extended(LONG, b"usr/bin/other\0") + header("doc"), AMBIGUOUS),
        (extended(LONG, b"usr/bin/tool\0") + extended(LONG, b"usr/bin/other\0") + header("doc"), AMBIGUOUS),
        (extended(SOLARIS, PATH) + header("doc"), AMBIGUOUS),
        (extended(X, pax("path", "")) + header("doc"), AMBIGUOUS),
        (header("a", last=b"tar\0", prefix=b"b"), "another format"),  # the prefix of star
        # A prefix in place of the times of GNU.
        (header("tool", magic=b"ustar  \0", prefix=b"usr/bin"), "no numbers"),
        (header("tool", magic=b"ustar  \0", prefix=b"00000000001\x00x"), "no numbers"),
        (header("tool", magic=b"ustar  \0", prefix=b"1 2"), "no numbers"),
        # An old header that is a folder by one of its names only.
        (extended(X, pax("path", "tool/")) + header("x", 512, tarfile.AREGTYPE) + HIDDEN, FOLDER),
        (extended(X, pax("path", "tool")) + header("x/", 512, tarfile.AREGTYPE) + HIDDEN, FOLDER),
    ],
    ids=range(12),
)
def test_what_readers_understand_differently_is_refused(tar, message):
    with pytest.raises(tarfile.ReadError, match=message):
        list(members(io.BytesIO(tar + END)))


@pytest.mark.parametrize(
    "tar",
    [
        header("usr/bin/tool", magic=bytes(8), prefix=b"evil"),
        header("usr/bin/tool", magic=b"ustar  \0", prefix=b"00000000000"),  # GNU: a time of access
        header("bin/tool", prefix=b"usr"),
        extended(G, TIME) + extended(G, TIME) + extended(X, PATH) + header("x"),
        extended(LONG, b"usr/bin/tool\0") + extended(X, TIME) + header("x"),
        extended(X, PATH) + header("x", kind=tarfile.AREGTYPE),
    ],
    ids=range(6),
)
def test_names_are_those_of_gnu_tar(tar):
    listed = subprocess.run(["tar", "-t"], input=tar + END, capture_output=True, check=True).stdout.decode().split()
    assert [member.name for member in members(io.BytesIO(tar + END))] == listed == ["usr/bin/tool"]
