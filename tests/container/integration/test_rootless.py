"""A rootless engine for real: root in the container is the caller outside."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.host.workspace import locate
from tests.support.privileges import as_root
from tests.support.rootless_engine import UID, RootlessEngine
from tests.support.users import as_user, give


@pytest.mark.long
@as_root()
def test_files_are_the_callers(engine, made, place):
    give(place, UID, UID)
    rootless = RootlessEngine(Path(tempfile.mkdtemp(prefix="reprokit-test-")))
    image = b"".join(engine.api.get_image(f"reprokit/{made.label}"))

    def work():
        os.environ["DOCKER_HOST"] = f"unix://{rootless.socket}"
        own = Engine.connect()
        own.api.load_image(image)
        name = ensure_running(own, made, RunOptions(network="none"))
        try:
            return execute(own, name, ["sh", "-c", "id -u; touch /workspace/made; echo $HOME"])
        finally:
            own.remove(name, force=True)

    try:
        done = as_user(work, UID, UID)
    finally:
        rootless.stop()
    assert done.stdout == "0\n/root\n", done
    path = locate(made.workspace, made.path) / "made"
    assert (path.stat().st_uid, path.stat().st_gid) == (UID, UID)
