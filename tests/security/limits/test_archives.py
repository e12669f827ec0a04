"""What engines save, archives of the store and Debian packages that grow."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.oci.model import blob_path, digest_of
from reprokit.untrusted import limits
from tests.support.bombs import GIB, entry, frame, refused
from tests.support.images import tar_of

pytestmark = pytest.mark.long

Run = Callable[..., str]


@pytest.mark.parametrize("pack", [lambda: frame(2 * GIB), lambda: gzip.compress(bytes(GIB), 1)], ids=["zstd", "gzip"])
def test_layers_that_an_engine_keeps_packed_come_in_pieces(run: Run, tmp_path: Path, pack: Callable[[], bytes]) -> None:
    layer = pack()
    (tmp_path / "x.tar").write_bytes(tar_of({blob_path(digest_of(layer)): layer}))
    code = (
        "from reprokit.oci.docker_archive import ArchiveReader\n"
        "print(sum(len(b) for l in ArchiveReader([open('x.tar', 'rb').read()]).layers() for b in l.blocks))"
    )
    assert int(run(python=code)) in (GIB, 2 * GIB)


def test_an_archive_of_many_documents(run: Run, tmp_path: Path) -> None:
    document = b"{" + b" " * (15 << 20) + b"}"
    (tmp_path / "x.tar").write_bytes(tar_of({f"{n}.json": document for n in range(6)}))
    code = (
        "from reprokit.oci.docker_archive import ArchiveReader\n"
        "for layer in ArchiveReader([open('x.tar', 'rb').read()]).layers(): pass"
    )
    refused(run(python=code, code=2), limits.DOCUMENTS)


def test_indexes_that_name_each_other(run: Run, tmp_path: Path) -> None:
    index = json.dumps({"manifests": [{"digest": "sha256:a"}] * 2}).encode()
    (tmp_path / "x.tar").write_bytes(tar_of({"blobs/sha256/a": index, "index.json": index}))
    code = (
        "from reprokit.oci.docker_archive import ArchiveReader\nsaved = ArchiveReader([open('x.tar', 'rb').read()])\n"
        "for layer in saved.layers(): pass\nsaved.images()"
    )
    refused(run(python=code, code=2), limits.IMAGES)


def a_deb(name: str, packed: bytes, size: int | str = "") -> bytes:
    return f"!<arch>\n{name:<48}{size or len(packed):<10}`\n".encode() + packed


XZ = ["xz", "-0", "--check=crc32", "-c"]


@pytest.mark.parametrize("form", ["zst", "gz", "xz"])
def test_a_debian_package(run: Run, tmp_path: Path, form: str) -> None:
    code = "from reprokit.supply.kinds.apt.deb import control; print(control(Path('x.deb')))"
    size = 1 << 28
    content = entry("control", size) + bytes(size)
    packed = {
        "zst": lambda: frame(entry("control", 4 * GIB), 4 * GIB),
        "gz": lambda: gzip.compress(content, 1),
        "xz": lambda: subprocess.run(XZ, input=content, capture_output=True, check=True).stdout,
    }[form]()
    (tmp_path / "x.deb").write_bytes(a_deb(f"control.tar.{form}", packed))
    refused(run(python=code, code=2), limits.CONTROL)


def test_a_debian_package_whose_members_have_no_end(run: Run, tmp_path: Path) -> None:
    """A negative size led back to the same header for ever."""
    for size in ("-60", "+60", "1_0", " 60", "6\u0660"):
        (tmp_path / "x.deb").write_bytes(a_deb("data.tar", b"", size))
        code = "from reprokit.supply.kinds.apt.deb import control; control(Path('x.deb'))"
        assert "not a Debian package" in run(python=code, code=4)
