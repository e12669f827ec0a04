"""Resolve packages of a local archive and of Debian with the base's own apt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from reprokit.engine import Engine
from reprokit.errors import SourceError, UsageError
from reprokit.image.base.resolve import BaseImage
from reprokit.recipe.blocks import templates
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.apt import resolve
from reprokit.supply.kinds.apt.install import AptInstall, FollowedSets
from reprokit.supply.kinds.apt.resolve import WITHOUT_VENDOR, BaseApt, CommandResult, changed_apt, lock_apt
from reprokit.supply.kinds.kind import Tools, UpstreamChange
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store
from tests.support.apt_archive import Archive
from tests.support.fetching import local_mirrors

in_one_worker = pytest.mark.xdist_group("apt-lock")
EARLY, LATE = "Sat, 05 Sep 2026 09:31:36 UTC", "Fri, 20 Nov 2026 02:12:41 UTC"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    archive = Archive(tmp_path_factory.mktemp("archive"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "HTTP_PROXY"):
            patch.delenv(name, raising=False)
        yield archive
    archive.close()


@pytest.fixture(scope="module")
def base(engine: Engine, images, bookworm, served: Archive) -> BaseImage:
    """Debian 12 whose apt has the local archive, and a vendor's that does not answer."""
    sources = {
        "etc/apt/sources.list": f"deb [trusted=yes] {served.url} bookworm main\n".encode(),
        "etc/apt/sources.list.d/cuda-ubuntu.list": b"deb [trusted=yes] http://127.0.0.2:9/cuda ./\n",
    }
    image = images.on(bookworm.base.name, "apt", [sources])
    return BaseImage("nvidia/cuda:1", image, engine.image(image).id, "engine")


@pytest.fixture
def archive(served: Archive) -> Archive:
    """The archive, empty."""
    served.clear()
    return served


def tools(engine: Engine, base: BaseImage, store: Store) -> Tools:
    return Tools(local_mirrors(store), engine, lambda: base)


@pytest.fixture(scope="module")
def started(engine: Engine, base: BaseImage, served: Archive, tmp_path_factory: pytest.TempPathFactory):
    """A container of the base. Starting and stopping one takes longer than a resolution."""
    served.publish(EARLY)
    with BaseApt(tools(engine, base, Store(tmp_path_factory.mktemp("started")))) as apt:
        yield apt


@pytest.fixture
def reused(started: BaseApt, archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolutions use one container, without its lists: apt compares dates in seconds and might keep them."""

    @contextmanager
    def again(*_: object) -> Iterator[BaseApt]:
        started.ask(["sh", "-c", "rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin"])
        started.update()
        yield started

    monkeypatch.setattr(resolve, "BaseApt", again)


@in_one_worker
@pytest.mark.usefixtures("reused")
def test_dependencies_upgrades_and_what_earlier_blocks_installed(engine, base, archive, store):
    files = {
        file.name.partition("_")[0]: file
        for file in (
            archive.deb("app", Depends="lib (>= 1), either | other, tzdata (>= 9000)"),
            archive.deb("lib", "1:1.5+b1"),
            archive.deb("either"),
            archive.deb("other"),
            archive.deb("tzdata", "9999"),
            archive.deb("recommended"),
            archive.deb("more", Depends="lib", Recommends="recommended"),
            archive.deb("free", Depends="extra | plain"),
            archive.deb("plain"),
            archive.deb("extra", component="contrib"),
        )
    }
    archive.publish(EARLY)
    installs = [
        AptInstall("apt", ("app",)),
        AptInstall("llvm", ("more",), before=("app",)),
        AptInstall("git", ("more",)),  # of a stage that starts at the base
        AptInstall("tvm", ("lib",), before=("app", "more")),
        AptInstall("wheels", ("free",)),
        AptInstall("cuda", ("extra",), ("free",), ("contrib",)),  # components count from their block on
    ]
    packages, as_of = lock_apt(installs, tools(engine, base, store))
    assert {p.name: p.blocks for p in packages} == {
        "app": ("apt",),
        "either": ("apt",),
        "extra": ("cuda",),
        "free": ("wheels",),
        "lib": ("apt", "git"),
        "more": ("git", "llvm"),
        "plain": ("wheels",),
        "tzdata": ("apt",),
    }
    assert as_of == "20260905T093136Z"
    for package in packages:
        content = files[package.name].read_bytes()
        assert (package.sha256, package.size) == (hashlib.sha256(content).hexdigest(), len(content))
        assert package.url == f"{archive.url}/{files[package.name].relative_to(archive.folder)}"
    assert next(p.version for p in packages if p.name == "lib") == "1:1.5+b1"
    assert fetch_all([p.locked_input() for p in packages], local_mirrors(store)).files == len(packages)


@in_one_worker
@pytest.mark.usefixtures("reused")
def test_what_cannot_be_installed_is_named_with_its_block(engine, base, archive, store):
    for version in ("1.0", "2.0"):
        archive.deb("tool", version)
    archive.deb("broken", Depends="nowhere, virtual")
    archive.publish(EARLY)
    unmet = "broken cannot be installed: broken : Depends: nowhere but it is not installable"
    for package, kind, message, hint in (
        ("tool=1.5", UsageError, "no such version: tool 1.5", "versions for nvidia/cuda:1: 2.0, 1.0"),
        ("toolx", UsageError, "nvidia/cuda:1 has no package toolx; did you mean tool?", ""),
        ("virtual", UsageError, "nvidia/cuda:1 has no package virtual", ""),
        ("broken", SourceError, unmet, ""),
    ):
        with pytest.raises(kind) as error:
            lock_apt([AptInstall("base", ("tool=1.0",)), AptInstall("apt", (package,))], tools(engine, base, store))
        assert error.value.message.startswith(message)
        assert (error.value.where, error.value.hint) == ("block apt", hint)


@in_one_worker
def test_the_container_holds_no_proxy_and_goes(engine, base, archive, store, monkeypatch):
    archive.publish(EARLY)
    with BaseApt(tools(engine, base, store)) as apt:
        assert "proxy" not in str(engine.container(apt._container.name).config).lower()
        assert "http_proxy=http://127.0.0.1:" in apt.ask(["env"]).output
    assert engine.container(apt._container.name) is None
    # A vendor's lists are omitted as the image omits them.
    monkeypatch.setattr(resolve, "_TRIES", 1)
    assert WITHOUT_VENDOR in (templates() / "blocks/base.j2").read_text()
    with pytest.raises(SourceError, match=r"cannot download the package lists of me/cuda:1: .*127\.0\.0\.2:9"):
        lock_apt([AptInstall("apt", ("app",))], tools(engine, replace(base, reference="me/cuda:1"), store))


@pytest.mark.parametrize(
    ("script", "limit", "message"),
    [
        ("yes | head -c 3M; yes | head -c 3M >&2; sleep infinity", "PROGRAM_OUTPUT=5242880", "prints more than 5 MiB"),
        ("sleep infinity", "APT_SECONDS=2", "takes more than 2 s"),
    ],
)
def test_a_package_manager_that_never_ends(engine, images, bookworm, store, monkeypatch, script, limit, message):
    image = images.on(bookworm.base.name, "apt", [{"usr/bin/apt-get": f"#!/bin/sh\n{script}\n".encode()}])
    base = BaseImage("me/base:1", image, engine.image(image).id, "engine")
    name, _, value = f"REPROKIT_LIMIT_{limit}".partition("=")
    monkeypatch.setenv(name, value)
    tried = BaseApt(tools(engine, base, store))
    with pytest.raises(SourceError, match=f"me/base:1 {message}") as caught:
        tried.__enter__()
    assert f"{name}=" in caught.value.hint
    assert engine.container(tried._container.name) is None


@in_one_worker
@pytest.mark.usefixtures("reused")
def test_what_moved_and_what_takes_the_place_of_what_was_dropped(engine, base, archive, store):
    archive.deb("app", Depends="lib, gone")
    old = archive.deb("lib", "1.0")
    gone = archive.deb("gone")
    archive.publish(EARLY)
    installs = [AptInstall("apt", ("app",))]
    locked, _ = lock_apt(installs, tools(engine, base, store))
    assert changed_apt(installs, locked, tools(engine, base, store)) == []
    for file in (old, gone, archive.folder / "pool/main/app_1.0_all.deb"):
        file.unlink()
    archive.deb("app", "1.1", Depends="lib")
    archive.deb("lib", "1.0+deb12u1")
    archive.publish(LATE)
    assert changed_apt(installs, locked, tools(engine, base, store)) == [
        UpstreamChange("apt", "app", "1.0", "1.1", "newer"),
        UpstreamChange("apt", "gone", "1.0", "", "vanished"),
        UpstreamChange("apt", "lib", "1.0", "1.0+deb12u1", "newer"),
    ]
    packages, as_of = lock_apt(installs, tools(engine, base, store))
    assert [(p.name, p.version) for p in packages] == [("app", "1.1"), ("lib", "1.0+deb12u1")]
    assert as_of == "20261120T021241Z"


# Installs whose packages another lock names, and those that are resolved after them.
PYTHON = AptInstall("python", ("python3",))
GIT = AptInstall("git", ("git",), before=("python3",))


def sha256(name: str, version: str) -> str:
    return hashlib.sha256(f"{name} {version}".encode()).hexdigest()


def package(name: str, version: str) -> AptPackage:
    where = {"architecture": "amd64", "archive": "debian", "path": f"pool/main/{name}_{version}_amd64.deb"}
    return AptPackage(name=name, version=version, size=3, sha256=sha256(name, version), **where)


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
    unused = Tools(local_mirrors(store), None, pytest.fail)
    assert lock_apt([], unused) == ((), "") and changed_apt([], (), unused) == []
