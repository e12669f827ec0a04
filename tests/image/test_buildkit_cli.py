"""Which Docker CLI can use BuildKit."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import EngineError
from reprokit.image import buildkit


def docker(folder: Path, version: str, buildx: bool) -> Path:
    folder.mkdir()
    path = folder / "docker"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = buildx ] && exit {0 if buildx else 1}\necho "Docker version {version}, build x"\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "buildx", "words"),
    [
        ("20.10.24+dfsg1", False, ("build",)),
        ("28.2.2", False, None),
        ("28.2.2", True, ("buildx", "build", "--builder=default", "--load")),
        ("18.06.1-ce", False, None),
    ],
)
def test_which_docker_clis_have_buildkit(tmp_path, monkeypatch, version: str, buildx: bool, words):
    first = docker(tmp_path / "a", "28.2.2", False)
    path = docker(tmp_path / "b", version, buildx)
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:{tmp_path / 'b'}:/usr/bin:/bin")
    monkeypatch.setattr(buildkit, "_candidates", lambda: [str(first), str(path)])
    if words is None:
        with pytest.raises(EngineError, match="no Docker CLI on PATH can use BuildKit") as error:
            buildkit.find_cli()
        assert str(first) in error.value.message and "--builder classic" in error.value.hint
    else:
        assert buildkit.find_cli() == (str(path), *words)


def test_every_docker_on_the_path_is_a_candidate_once(tmp_path, monkeypatch):
    one, two = docker(tmp_path / "a", "1", False), docker(tmp_path / "b", "2", False)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "docker").symlink_to(one)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / f) for f in ("a", "c", "none", "b")))
    assert buildkit._candidates() == [str(one), str(two)]
