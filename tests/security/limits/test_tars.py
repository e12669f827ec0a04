"""Layers and workspaces whose tars grow: each is refused in one line that says how to raise the limit."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprokit.oci.model import digest_of
from reprokit.untrusted import limits
from tests.support.bombs import END, TARS, UNPACK, a_bundle, empty, entry, refused
from tests.support.made import Made

pytestmark = pytest.mark.long

Run = Callable[..., str]


@pytest.mark.parametrize("name", TARS)
def test_a_layer(run: Run, tmp_path: Path, name: str) -> None:
    layer, limit = TARS[name]
    assert len(layer) < 2 << 20
    file = a_bundle(tmp_path / "x.rkit", layer)
    # One of them to the limit itself, which takes seconds.
    fewer = {} if name == "empty files" else {"REPROKIT_LIMIT_ENTRIES": "50000"}
    refused(run("diff", file, empty(tmp_path), code=2, **fewer), limit)


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


def names(*parts: str) -> bytes:
    """A layer with an empty entry for each name."""
    return zstandard.compress(b"".join([*map(entry, parts), END]))


def test_packages_without_end(run: Run, tmp_path: Path) -> None:
    long = "/".join(["d" * 200] * 15)
    file = a_bundle(tmp_path / "x.rkit", names(*(f"{long}/{n}-1.dist-info/METADATA" for n in range(6_000))))
    refused(run("diff", file, empty(tmp_path), code=2), limits.PACKAGES)
    for path in ("p" * 4097, "p" * 500_000):
        file = a_bundle(tmp_path / "x.rkit", names(path))
        assert "longer than a path can be" in run("diff", file, empty(tmp_path), code=2)
    size = 20 << 20
    status = zstandard.compress(entry("var/lib/dpkg/status", size) + b"Package: a\n\n" * (size // 12) + END)
    refused(run("diff", a_bundle(tmp_path / "x.rkit", status), empty(tmp_path), code=2), limits.PACKAGES)


def test_each_layer_may_remove_much_of_those_below(run: Run, tmp_path: Path) -> None:
    count = 20_000
    packages = zstandard.decompress(names(*(f"a/p{n}-1.dist-info/METADATA" for n in range(count))), 1 << 28)
    whiteouts = zstandard.decompress(names(*(f"a/.wh.p{n}-1.dist-info" for n in range(1, count))), 1 << 28)
    one = Made.of({"x/y:1": [packages, whiteouts]}).write(tmp_path / "x.rkit")
    assert "python:p0" in (text := run("diff", one, empty(tmp_path), code=1))
    assert "python:p1" not in text


def test_many_layers_of_many_entries(run: Run, tmp_path: Path) -> None:
    """Each is within the limits."""
    entries, layers = zstandard.compress(entry() * 8192), [b"%d" % n for n in range(10)]
    made = Made.of({"x/y:1": layers}, pack=lambda content: entries + zstandard.compress(entry(content.decode())))
    made.metadata["images"][0]["size"] = 8193 * 512 * 10
    file = made.write(tmp_path / "x.rkit")
    refused(run("diff", file, empty(tmp_path), code=2, REPROKIT_LIMIT_ENTRIES="60000"), limits.ENTRIES)
    run("diff", file, empty(tmp_path), code=1, REPROKIT_LIMIT_ENTRIES="90000")


@pytest.mark.parametrize("name", ["n" * 256, "/".join("d" * 9 for _ in range(200)), "\u20ac" * 90])
def test_names_that_no_file_can_have(run: Run, tmp_path: Path, name: str) -> None:
    parts = name.split("/")
    folders = [entry("/".join(parts[:n]), kind=tarfile.DIRTYPE) for n in range(1, len(parts))]
    content = zstandard.compress(b"".join([*folders, entry(name), END]))
    made = Made.of({"x/y:1": [b"layer"]})
    made.blobs["workspaces/w.tar.zst"] = content
    described = {"kind": "workspace", "name": "w", "path": "workspaces/w.tar.zst"}
    made.metadata["parts"] = [described | {"digest": digest_of(content), "size": len(content)}]
    said = run(made.write(tmp_path / "x.rkit"), python=UNPACK, code=2)
    assert "too long" in said or "more than 64 folders inside each other" in said
