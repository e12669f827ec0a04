from __future__ import annotations

import pytest

from reprokit.container.session import CallerVariables, caller_variables
from reprokit.container.user import Identity, identity, is_root, named_groups, resolved, with_account
from reprokit.errors import UsageError
from reprokit.host.user import Caller

ANA = Caller(1234, 1235, (1235, 44, 0, 998), "ana")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["name=seccomp,profile=default"], Identity("1234:1235", ("44", "998"), False)),
        (["name=seccomp", "name=userns"], Identity("1234:1235", ("44", "998"), True)),
        (["name=seccomp", "name=rootless"], Identity("0:0", (), False)),
        (["name=seccomp,profile=default,rootless"], Identity("0:0", (), False)),
        (None, Identity("1234:1235", ("44", "998"), False)),
    ],
)
def test_who_runs_in_the_container(options, expected):
    assert identity(ANA, {"SecurityOptions": options}) == expected


PASSWD = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
GROUP = "root:x:0:\nubuntu:x:1000:\n"


def test_an_account_is_added():
    added = with_account(PASSWD, GROUP, ANA)
    assert added.passwd == PASSWD + "ana:x:1234:1235::/home/ana:/bin/sh\n"
    assert added.group == GROUP + "ana:x:1235:\n"
    assert added.home == "/home/ana"


def test_an_account_of_that_id_is_left_alone():
    assert with_account(PASSWD, GROUP, Caller(1000, 1000, (), "ana")) is None


@pytest.mark.parametrize("name", ["ubuntu", "root", "DOMAIN\\ana", "a:b", "", "é", "x" * 40, "a\nroot:x:0:0"])
def test_names_that_cannot_be_taken_over(name):
    added = with_account(PASSWD, GROUP, Caller(1234, 1000, (), name))
    assert added.passwd == PASSWD + "user1234:x:1234:1000::/home/user1234:/bin/sh\n"
    assert added.group == GROUP


def test_files_that_are_missing_or_end_without_a_newline():
    assert with_account("", "", ANA).passwd.startswith("ana:")
    assert with_account(PASSWD.rstrip(), GROUP, ANA).passwd.count("\n") == 3


FAKE = PASSWD + "www:x:33:33::/:\nfake:x:0:33::/:\nrooted:x:7:0::/:\nodd:x:nine:x::/:\n"


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ("root", "0:0"),
        ("0", "0:0"),
        ("root:www", "0:33"),
        ("www", "33:33"),
        ("33", "33:33"),
        ("1234", "1234:1234"),
        ("1234:5", "1234:5"),
        ("rooted:root", "7:0"),
        ("7:0", "7:0"),
        ("ubuntu:www", "1000:33"),
    ],
)
def test_users_are_looked_up_here(asked, ids):
    assert resolved(asked, FAKE, GROUP + "www:x:33:\n") == ids


@pytest.mark.parametrize("asked", ["fake", "fake:33", "rooted", "7", "www:toor", "none", "odd", "www:none"])
def test_the_files_of_an_image_make_nobody_root(asked):
    with pytest.raises(UsageError) as error:
        resolved(asked, FAKE, GROUP + "toor:x:0:\n")
    assert "1000:1000" in error.value.hint


def test_who_is_root():
    assert [is_root(user) for user in ("root", "0", "00:5", "root:x", "1", "toor", "1:0")] == [True] * 4 + [False] * 3


def test_a_group_that_is_called_by_a_number():
    assert named_groups(GROUP + " 44 :x:0:\n45\n46:x:46:\n", ("44", "45", "47")) == ["44", "45"]


def test_proxies_go_along_unless_they_are_on_this_hosts_loopback():
    caller = {"http_proxy": "http://proxy:3128", "HTTPS_PROXY": "http://127.0.0.1:7890", "no_proxy": "x", "PATH": "/x"}
    caller["all_proxy"] = "localhost:1080"
    passed = caller_variables(caller, "bridge", False)
    assert passed == CallerVariables({"http_proxy": "http://proxy:3128", "no_proxy": "x"}, ["HTTPS_PROXY", "all_proxy"])
    assert caller_variables(caller, "host", False).unreachable == []
    assert caller_variables({"TERM": "vt100"}, "bridge", True) == CallerVariables({"TERM": "vt100"})
    assert caller_variables({}, "bridge", True) == CallerVariables({"TERM": "xterm"})
