"""What a checkout plants where `export -o` writes before its file is complete."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.bundle.partial_file import claimed
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from tests.support.images import tar_of
from tests.support.names import unique
from tests.support.strangers import User

pytestmark = pytest.mark.engine


@pytest.fixture
def image(engine: Engine) -> Iterator[str]:
    name = unique("export")
    engine.import_image(io.BytesIO(tar_of({"f": b"1"})), f"reprokit/{name}", "cpu", [])
    yield f"reprokit/{name}:cpu"
    with contextlib.suppress(ReprokitError):
        engine.remove_image(f"reprokit/{name}:cpu", force=True)


@pytest.mark.parametrize("planted", ["folder", "file", "new", "another name of the file"])
@pytest.mark.parametrize(("form", "code"), [("rkit", 2), ("docker", 2), ("oci-dir", 2), ("squashfs", 2)])
def test_a_planted_partial_file_leads_nowhere(image: str, tmp_path: Path, form: str, code: int, planted: str) -> None:
    user, outside = User(tmp_path / "user"), tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("the user's")
    partial = user.here / ".x.out.partial"
    if planted == "another name of the file":
        partial.hardlink_to(outside / "file")
    else:
        partial.symlink_to(outside / planted)
    said = user("export", image, "-o", "x.out", "--format", form, code=code)
    assert said.count("error:") == (1 if code else 0)
    assert list((outside / "folder").iterdir()) == [] and not (outside / "new").exists()
    assert (outside / "file").read_text() == "the user's"
    partial.unlink(missing_ok=True)
    shutil.rmtree(user.here)
    user.here.mkdir()
    user("export", image, "-o", "x.out", "--format", form)  # the control
    assert (user.here / "x.out").exists() and not (user.here / "x.out").is_symlink()


def test_a_link_planted_after_the_check_leads_nowhere(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sqfstar would make the file that the link names."""
    user, outside, programs = User(tmp_path / "user"), tmp_path / "outside", tmp_path / "programs"
    outside.mkdir()
    programs.mkdir()
    script = programs / "sqfstar"
    script.write_text(
        f'#!/bin/sh\nln -sfn {outside}/new {user.here}/.x.out.partial\nexec {shutil.which("sqfstar")} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    user("export", image, "-o", "x.out", "--format", "squashfs")
    assert list(outside.iterdir()) == []


def test_a_link_of_the_image_stands_for_no_file_of_enroots(engine: Engine, tmp_path: Path) -> None:
    """enroot mounts what /etc/fstab says on the host."""
    name, content = unique("export"), io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for path in ("fstab", "environment"):
            link = tarfile.TarInfo(f"etc/{path}")
            link.type, link.linkname = tarfile.SYMTYPE, "../evil"
            tar.addfile(link)
        evil = tarfile.TarInfo("evil")
        evil.size = 4
        tar.addfile(evil, io.BytesIO(b"evil"))
    content.seek(0)
    engine.import_image(content, f"reprokit/{name}", "cpu", [])
    try:
        User(tmp_path / "user")("export", f"reprokit/{name}:cpu", "-o", "x.sqsh", "--format", "squashfs")
    finally:
        engine.remove_image(f"reprokit/{name}:cpu", force=True)
    out, root = tmp_path / "user" / "here" / "x.sqsh", tmp_path / "root"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", str(root), str(out)], check=True, capture_output=True)
    for path in ("fstab", "environment"):
        assert not (root / "etc" / path).is_symlink() and b"evil" not in (root / "etc" / path).read_bytes()


def test_a_squashfs_that_another_process_writes_is_waited_for(image: str, tmp_path: Path) -> None:
    user = User(tmp_path / "user")
    partial, ended = user.here / ".x.out.partial", threading.Event()

    def other() -> None:
        assert not ended.wait(2)
        other_file.write(b"other")
        partial.unlink()
        other_file.close()

    other_file = claimed(partial, print)
    writer = threading.Thread(target=other)
    writer.start()
    said = user("export", image, "-o", "x.out", "--format", "squashfs")
    ended.set()
    writer.join()
    assert "another export writes this file" in said
    assert (user.here / "x.out").read_bytes().startswith(b"hsqs")
