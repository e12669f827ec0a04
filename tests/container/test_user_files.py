"""Files in mounted folders belong to the caller, who has a name and a home inside."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.host.workspace import locate
from tests.support.privileges import as_root

pytestmark = pytest.mark.engine

UID, GID, SHARED = 4711, 4712, 4713
SCRIPT = """
id -un; id -u; id -G; echo $HOME; python3 -c 'import getpass; print(getpass.getuser())'
touch /workspace/made $HOME/here; mkdir -p /workspace/folder; cat /workspace/shared
"""


def _as_user(made, answers):
    """In a child of this process: another user could perhaps not even read the checkout's environment."""
    socket = Path("/var/run/docker.sock").stat()
    os.setgroups([socket.st_gid, SHARED])
    os.setgid(GID)
    os.setuid(UID)
    engine = Engine.connect()
    name = ensure_running(engine, made, RunOptions(root=True))
    answers.put((name, execute(engine, name, ["bash", "-c", SCRIPT])))


@as_root()
def test_an_ordinary_user_owns_what_is_made(engine, recipe, place):
    made = recipe()
    workspace = locate(made.workspace, made.path)
    for folder in (place, place / "home", workspace):
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, UID, GID)
    (place / "home" / "workspaces").chmod(0o755)
    (workspace / "shared").write_text("by group\n")
    os.chown(workspace / "shared", 0, SHARED)
    (workspace / "shared").chmod(0o640)
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_as_user, args=(made, answers))
    child.start()
    name, done = answers.get(timeout=200)
    child.join()
    assert done.exit_code == 0, done
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"user{UID}", str(UID)]
    assert set(lines[2].split()) >= {str(GID), str(SHARED)}
    assert lines[3:] == [f"/home/user{UID}", f"user{UID}", "by group"]
    for path in (workspace / "made", workspace / "folder"):
        assert (path.stat().st_uid, path.stat().st_gid) == (UID, GID)
    root = execute(engine, name, ["sh", "-c", "id -un; /usr/sbin/useradd -m other && id -un other"], user="root")
    assert root.stdout == "root\nother\n", root
    for path in (place / "home").rglob("*"):  # who removes the container is root again
        os.lchown(path, 0, 0)


def test_as_root_files_are_roots(engine, made, place):
    name = ensure_running(engine, made)
    assert execute(engine, name, ["touch", "/workspace/made"]).exit_code == 0
    made_file = locate(made.workspace, made.path) / "made"
    assert made_file.stat().st_uid == os.getuid()
