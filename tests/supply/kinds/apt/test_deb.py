from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.kinds.apt import deb
from tests.support.debs import make_deb


@pytest.mark.parametrize("packing", ["none", "gzip", "xz", "zstd"])
def test_the_control_file_however_it_is_packed(tmp_path: Path, packing: str):
    file = make_deb(tmp_path, "some-package", "2:1.0~rc1-3", packing=packing, Depends="libc6, other (>= 1)")
    fields = subprocess.run(["dpkg-deb", "--field", file], check=True, capture_output=True, text=True).stdout
    assert "Version: 2:1.0~rc1-3\n" in fields and "\n with a second line" in fields
    assert deb.control(file) == fields.strip("\n")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(SourceError, match="not a Debian package"):
        deb.control(file)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"!<arch>\n", b"!<arch>\ncontrol.tar.xz  garbage" + b" " * 40])
def test_what_is_no_package(tmp_path: Path, content: bytes):
    file = tmp_path / "a.deb"
    file.write_bytes(content)
    with pytest.raises(SourceError, match="not a Debian package"):
        deb.control(file)
