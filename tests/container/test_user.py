from __future__ import annotations

import pytest

from reprokit.container.environment import from_caller
from reprokit.container.user import Caller, Identity, identity, with_account

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


def test_proxies_go_along_unless_they_are_on_this_hosts_loopback():
    caller = {"http_proxy": "http://proxy:3128", "HTTPS_PROXY": "http://127.0.0.1:7890", "no_proxy": "x", "PATH": "/x"}
    caller["all_proxy"] = "localhost:1080"
    assert from_caller(caller, "bridge", False) == (
        {"http_proxy": "http://proxy:3128", "no_proxy": "x"},
        ["HTTPS_PROXY", "all_proxy"],
    )
    assert from_caller(caller, "host", False)[1] == []
    assert from_caller({"TERM": "vt100"}, "bridge", True) == ({"TERM": "vt100"}, [])
    assert from_caller({}, "bridge", True) == ({"TERM": "xterm"}, [])
