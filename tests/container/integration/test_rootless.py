"""A rootless engine for real: root in the container is the caller outside."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.host.workspace import locate
from tests.support.privileges import as_root
from tests.support.rootless_engine import UID, RootlessEngine

pytestmark = [
    pytest.mark.engine,
    as_root(),
]


@pytest.fixture
def rootless() -> Iterator[RootlessEngine]:
    engine = RootlessEngine(Path(tempfile.mkdtemp(prefix="reprokit-test-")))
    yield engine
    engine.stop()


def _as_user(made, image: bytes, socket: Path, answers) -> None:
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    engine = Engine.connect()
    engine.api.load_image(image)
    name = ensure_running(engine, made, RunOptions(network="none"))
    answers.put(execute(engine, name, ["sh", "-c", "id -u; touch /workspace/made; echo $HOME"]))
    engine.remove(name, force=True)


def test_files_are_the_callers(engine, made, place, rootless):
    for folder in (place, place / "home"):
        folder.mkdir(exist_ok=True)
        os.chown(folder, UID, UID)
    image = b"".join(engine.api.get_image(f"reprokit/{made.label}"))
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_as_user, args=(made, image, rootless.socket, answers))
    child.start()
    done = answers.get(timeout=120)
    child.join()
    assert done.stdout == "0\n/root\n", done
    path = locate(made.workspace, made.path) / "made"
    assert (path.stat().st_uid, path.stat().st_gid) == (UID, UID)
