"""Installs whose packages another lock names, and those that are resolved after them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from reprokit.supply.kinds.apt import resolve
from reprokit.supply.kinds.apt.container import CommandResult
from reprokit.supply.kinds.apt.install import AptInstall, FollowedSets
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store

PYTHON = AptInstall("python", ("python3",))
GIT = AptInstall("git", ("git",), before=("python3",))


def sha256(name: str, version: str) -> str:
    return hashlib.sha256(f"{name} {version}".encode()).hexdigest()


def package(name: str, version: str) -> AptPackage:
    path = f"pool/main/{name}_{version}_amd64.deb"
    return AptPackage(
        name=name,
        version=version,
        architecture="amd64",
        archive="debian",
        path=path,
        size=3,
        sha256=sha256(name, version),
    )


class Today:
    """apt's answers, in which every package has version 2."""

    def __init__(self) -> None:
        self.installs: list[list[str]] = []

    def ask(self, command: Sequence[str]) -> CommandResult:
        if command[0] != "apt-get":
            return CommandResult(0, "", "")
        names = [name for name in command[2:] if not name.startswith("-")]
        self.installs.append(names)
        pool = "http://apt.example/debian/pool/main"
        lines = (
            f"'{pool}/{name}_2_amd64.deb' {name}_2_amd64.deb 3 SHA256:{sha256(name, '2')}" for name in (*names, "libc6")
        )
        return CommandResult(0, "\n".join(lines), "")


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> Today:
    apt = Today()

    @contextmanager
    def started(*_: object):
        yield apt

    monkeypatch.setattr(resolve, "BaseApt", started)
    return apt


def test_what_moved_meanwhile_joins_the_set_of_the_next_block(today: Today, store: Store):
    followed = FollowedSets({PYTHON: (package("python3", "1"), package("libc6", "1"))}, "20261101T000000Z")
    packages, as_of = lock_apt([PYTHON, GIT], SimpleNamespace(store=store), followed)  # type: ignore[arg-type]
    assert [(p.name, p.version, p.blocks) for p in packages] == [
        ("git", "2", ("git",)),
        ("libc6", "1", ("python",)),
        ("libc6", "2", ("git",)),
        ("python3", "1", ("python",)),
        ("python3", "2", ("git",)),
    ]
    assert today.installs == [["python3", "git"]] and as_of == "20261101T000000Z"


def test_nothing_is_resolved_if_all_is_followed(today: Today, store: Store):
    followed = FollowedSets({PYTHON: (package("python3", "1"),)}, "20261101T000000Z")
    packages, as_of = lock_apt([PYTHON], SimpleNamespace(store=store), followed)  # type: ignore[arg-type]
    assert [p.blocks for p in packages] == [("python",)] and as_of == followed.as_of and not today.installs
