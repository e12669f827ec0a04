"""A container's layer without the excluded files."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from reprokit.bundle.container import CACHES, FilterReport, filter_layer
from reprokit.errors import EngineError


def _tar(entries: list[tuple[str, bytes | str | None]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """Files of bytes, hard links to a name, folders of None."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.LNKTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _blocks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + 777] for start in range(0, len(data), 777))


def _filter(data: bytes, patterns: list[str], content: bytes | None = b"") -> tuple[dict, FilterReport]:
    """The files that stay, by name; `content` is that of files that the filter reads once more."""
    report = FilterReport()
    again = None if content is None else (len(content), iter([content]))
    out = b"".join(filter_layer(_blocks(data), patterns, lambda path: nullcontext(again), report))
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        return {m.name: m.linkname or (tar.extractfile(m).read() if m.isreg() else "") for m in tar}, report


def test_without_patterns_nothing_changes():
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        data = _tar([("a", None), ("a/" + "long" * 60, b"x" * 5000), ("ü", b"y"), ("l", "ü"), ("e", b"")], form)
        out = b"".join(filter_layer(_blocks(data), [], lambda path: nullcontext(None), FilterReport()))
        assert out == data[: len(out) - 1024] + bytes(1024)
        assert not any(data[len(out) :])


def test_caches_are_excluded_but_not_folders_and_whiteouts():
    kept = {"var/cache/apt/archives": None, "var/lib/apt/lists/.wh..wh..opq": b"", "opt/conda/pkgs/p/file": b"4"}
    cached = {"var/cache/apt/archives/x.deb": b"1" * 100, "var/lib/apt/lists/some": b"2" * 10}
    cached |= {"root/.cache/pip/http/a": b"3", "opt/conda/pkgs/p.conda": b"5"}
    files, report = _filter(_tar([*kept.items(), *cached.items()]), list(CACHES))
    assert list(files) == list(kept)
    assert report.excluded.total() == 112


def test_a_file_with_another_name_is_kept():
    data = _tar([("c/a", b"content"), ("k/b", "c/a"), ("k/c", "c/a"), ("z", b"1")])
    files, _ = _filter(data, ["/c/*"], b"content")
    assert files == {"k/b": b"content", "k/c": "k/b", "z": b"1"}
    with pytest.raises(EngineError):
        _filter(data, ["/c/*"], None)


def test_the_largest_paths_are_reported():
    files = {"src/llvm/build/lib/a": 700, "src/llvm/build/b": 100, "opt/x": 300, "opt/y": 300}
    _, report = _filter(_tar([(name, bytes(size)) for name, size in files.items()]), [])
    large = [("/src/llvm/build", 800), ("/src/llvm/build/lib", 700), ("/opt", 600)]
    assert report.largest == [*large, ("/opt/x", 300), ("/opt/y", 300), ("/src/llvm/build/b", 100)]


def test_a_damaged_tar_is_refused():
    data = bytearray(_tar([("a", b"1" * 600), ("b", b"2")]))
    data[512 + 1024 + 150] ^= 0xFF
    with pytest.raises(EngineError, match="damaged"):
        _filter(bytes(data), [])
