"""Layers and workspaces whose tars grow: each is refused in one line that says how to raise the limit."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.support.bombs import END, TARS, a_bundle, empty, entry, refused

Run = Callable[..., str]


@pytest.mark.parametrize("name", TARS)
def test_a_layer(run: Run, tmp_path: Path, name: str) -> None:
    layer, limit = TARS[name]
    assert len(layer) < 2 << 20
    file = a_bundle(tmp_path / "x.rkit", layer)
    refused(run("diff", file, empty(tmp_path), code=2), limit)


def test_sparse_files_are_refused(run: Run, tmp_path: Path) -> None:
    """Their maps and holes take no room in the archive."""
    for sparse in (
        entry(kind=tarfile.GNUTYPE_SPARSE),
        _pax({"GNU.sparse.major": "1", "GNU.sparse.realsize": "9" * 15}),
    ):
        file = a_bundle(tmp_path / "x.rkit", zstandard.compress(sparse + END))
        assert "sparse" in run("diff", file, empty(tmp_path), code=2)


def _pax(records: dict[str, str]) -> bytes:
    info = tarfile.TarInfo("x")
    info.pax_headers = records
    return info.tobuf(tarfile.PAX_FORMAT)


def test_extended_headers_that_engines_write_are_read(run: Run, tmp_path: Path) -> None:
    name = "d" * 200 + "/" + "usr/lib/python3/" + "n" * 150 + "-1.0.dist-info/METADATA"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        info = tarfile.TarInfo(name)
        info.pax_headers = {"SCHILY.xattr.user.x": "v" * 60_000}
        file = a_bundle(tmp_path / "x.rkit", zstandard.compress(info.tobuf(form) + END))
        assert "n" * 150 in run("diff", file, empty(tmp_path), code=1)


def test_a_header_whose_parts_lie_about_their_length(run: Run, tmp_path: Path) -> None:
    """By which tarfile's own time grows with the square of the header (CVE-2024-6232)."""
    for content in (b"5 abc" * 200_000, b"1" * 1_000_000, b"0 a=b\n", b"-9 a=b\n", b"9999999 a=b\n", b" a=b\n"):
        header = entry(size=len(content), kind=tarfile.XHDTYPE) + content + bytes(-len(content) % 512)
        file = a_bundle(tmp_path / "x.rkit", zstandard.compress(header + entry() + END))
        assert "extended header is damaged" in run("diff", file, empty(tmp_path), code=2)
