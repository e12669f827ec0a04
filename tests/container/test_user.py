"""Who runs in a container, and that files in mounted folders belong to the caller."""

from __future__ import annotations

import os

import pytest

from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running
from reprokit.container.session import CallerVariables, caller_variables
from reprokit.container.settings import RunOptions
from reprokit.container.user import Identity, identity, is_root, named_groups, resolved, with_account
from reprokit.engine import Engine, EngineInfo
from reprokit.errors import UsageError
from reprokit.host.user import Caller
from reprokit.host.workspace import locate
from tests.support.privileges import as_root
from tests.support.users import GID, SHARED, UID, as_user, engines_groups, give

ANA = Caller(1234, 1235, (1235, 44, 0, 998), "ana")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("name=seccomp,profile=default",), Identity("1234:1235", ("44", "998"), False)),
        (("name=seccomp", "name=userns"), Identity("1234:1235", ("44", "998"), True)),
        (("name=seccomp", "name=rootless"), Identity("0:0", (), False)),
        (("name=seccomp,profile=default,rootless",), Identity("0:0", (), False)),
        ((), Identity("1234:1235", ("44", "998"), False)),
    ],
)
def test_who_runs_in_the_container(options, expected):
    assert identity(ANA, EngineInfo(security_options=options)) == expected


PASSWD = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
GROUP = "root:x:0:\nubuntu:x:1000:\n"


def test_an_account_is_added_unless_the_id_has_one():
    added = with_account(PASSWD, GROUP, ANA)
    assert added.passwd == PASSWD + "ana:x:1234:1235::/home/ana:/bin/sh\n"
    assert added.group == GROUP + "ana:x:1235:\n"
    assert added.home == "/home/ana"
    assert with_account(PASSWD, GROUP, Caller(1000, 1000, (), "ana")) is None
    # Files that are missing, or end without a newline.
    assert with_account("", "", ANA).passwd.startswith("ana:")
    assert with_account(PASSWD.rstrip(), GROUP, ANA).passwd.count("\n") == 3
    for name in ("ubuntu", "root", "DOMAIN\\ana", "a:b", "", "é", "x" * 40, "a\nroot:x:0:0"):
        added = with_account(PASSWD, GROUP, Caller(1234, 1000, (), name))
        assert added.passwd == PASSWD + "user1234:x:1234:1000::/home/user1234:/bin/sh\n"
        assert added.group == GROUP


FAKE = PASSWD + "www:x:33:33::/:\nfake:x:0:33::/:\nrooted:x:7:0::/:\nodd:x:nine:x::/:\n"


def test_users_are_looked_up_in_the_files_of_the_image():
    numbers = {"0": "0:0", "33": "33:33", "1234": "1234:1234", "1234:5": "1234:5", "7:0": "7:0"}
    names = {"root": "0:0", "root:www": "0:33", "www": "33:33", "rooted:root": "7:0", "ubuntu:www": "1000:33"}
    for user, ids in (numbers | names).items():
        assert resolved(user, FAKE, GROUP + "www:x:33:\n") == ids


@pytest.mark.parametrize("user", ["fake", "fake:33", "rooted", "7", "www:toor", "none", "odd", "www:none"])
def test_the_files_of_an_image_make_nobody_root(user):
    with pytest.raises(UsageError) as error:
        resolved(user, FAKE, GROUP + "toor:x:0:\n")
    assert "1000:1000" in error.value.hint


def test_who_is_root_and_a_group_that_is_called_by_a_number():
    assert [is_root(user) for user in ("root", "0", "00:5", "root:x", "1", "toor", "1:0")] == [True] * 4 + [False] * 3
    assert named_groups(GROUP + " 44 :x:0:\n45\n46:x:46:\n", ("44", "45", "47")) == ["44", "45"]


def test_proxies_go_along_unless_they_are_on_this_hosts_loopback():
    caller = {"http_proxy": "http://proxy:3128", "HTTPS_PROXY": "http://127.0.0.1:7890", "no_proxy": "x", "PATH": "/x"}
    caller["all_proxy"] = "localhost:1080"
    passed = caller_variables(caller, "bridge", False)
    assert passed == CallerVariables({"http_proxy": "http://proxy:3128", "no_proxy": "x"}, ["HTTPS_PROXY", "all_proxy"])
    assert caller_variables(caller, "host", False).unreachable == []
    assert caller_variables({"TERM": "vt100"}, "bridge", True) == CallerVariables({"TERM": "vt100"})
    assert caller_variables({}, "bridge", True) == CallerVariables({"TERM": "xterm"})


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
