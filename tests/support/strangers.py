"""What a stranger hands over: bundles with workspaces, and keys that sign them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

from reprokit import cli
from reprokit.bundle import signature
from reprokit.bundle.model import METADATA, SIGNATURE
from reprokit.errors import ReprokitError
from reprokit.oci.model import INDEX, digest_of
from tests.support.made import Made, tar
from tests.support.verbs import run_verb


class User:
    """Someone who calls reprokit, with a home and an empty current folder of their own below `root`."""

    def __init__(self, root: Path) -> None:
        self.home, self.here = root / "home", root / "here"
        self.here.mkdir(parents=True)

    def __call__(self, *arguments: object, code: int = 0) -> str:
        """Run the command in this process; returns what it wrote, an error at the end."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REPROKIT_HOME", str(self.home))
            patch.chdir(self.here)
            done = CliRunner().invoke(cli.app, [*map(str, arguments)])
        error = done.exception
        found, said = done.exit_code, done.output
        if isinstance(error, ReprokitError):
            found, said = error.exit_code, f"{said}error: {error.message}\nhint: {error.hint}\n"
        elif error and not isinstance(error, SystemExit):
            raise error
        assert found == code, said
        return said

    def process(self, *arguments: object) -> str:
        """Run the command in a process of its own; returns what it wrote."""
        done = run_verb(*arguments, cwd=self.here, env={"REPROKIT_HOME": str(self.home)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o4755
    return info


def workspace(made: Made, members: Iterable[tuple[tarfile.TarInfo, bytes]], name: str = "brought-w") -> Made:
    """The bundle with a workspace of these entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
            archive.members.clear()
    return with_part(made, buffer.getvalue(), name)


def with_part(made: Made, content: bytes, name: str = "brought-w") -> Made:
    """The bundle with a workspace of these bytes of a tar."""
    raw = zstandard.ZstdCompressor().compress(content)
    path = f"workspaces/{name}.tar.zst"
    made.blobs[path] = raw
    part = {"kind": "workspace", "name": name, "path": path, "digest": digest_of(raw), "size": len(raw)}
    made.metadata["parts"] = [part]
    return made


def new_key(folder: Path, name: str) -> Path:
    """An ssh key; its public half lies beside it."""
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


def signed(made: Made, key: Path) -> bytes:
    """The bundle as a file, signed."""
    files = made.files
    text = signature.statement(files[INDEX], files[METADATA])
    return tar({**files, SIGNATURE: signature.sign(text, key)})
