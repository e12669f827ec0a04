"""Files in mounted folders belong to the caller, who has a name and a home inside."""

from __future__ import annotations

import os

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import RunOptions
from reprokit.engine import Engine
from reprokit.host.workspace import locate
from tests.support.privileges import as_root
from tests.support.users import GID, SHARED, UID, as_user, engines_groups, give

pytestmark = pytest.mark.engine

SCRIPT = """
id -un; id -u; id -G; echo $HOME; python3 -c 'import getpass; print(getpass.getuser())'
touch /workspace/made $HOME/here; mkdir -p /workspace/folder; cat /workspace/shared
"""


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

    def work():
        own = Engine.connect()
        name = ensure_running(own, made, RunOptions(root=True))
        return name, execute(own, name, ["bash", "-c", SCRIPT])

    name, done = as_user(work, groups=engines_groups())
    assert done.exit_code == 0, done
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"user{UID}", str(UID)]
    assert set(lines[2].split()) >= {str(GID), str(SHARED)}
    assert lines[3:] == [f"/home/user{UID}", f"user{UID}", "by group"]
    for path in (workspace / "made", workspace / "folder"):
        assert (path.stat().st_uid, path.stat().st_gid) == (UID, GID)
    root = execute(engine, name, ["sh", "-c", "id -un; /usr/sbin/useradd -m other && id -un other"], user="root")
    assert root.stdout == "root\nother\n", root
    give(place, 0, 0)  # who removes the container is root again


def test_as_root_files_are_roots(engine, made, place):
    name = ensure_running(engine, made)
    assert execute(engine, name, ["touch", "/workspace/made"]).exit_code == 0
    made_file = locate(made.workspace, made.path) / "made"
    assert made_file.stat().st_uid == os.getuid()
