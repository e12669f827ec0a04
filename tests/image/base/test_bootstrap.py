"""A base that is made of packages: its release, the file system that configures them, and the one that is kept."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.image.base.bootstrap import name_of, packages_hash
from reprokit.image.base.release import Release, release_of
from reprokit.image.base.rootfs import RootFileSystem, installed
from reprokit.image.base.stage import Stage
from reprokit.supply.store import Store
from tests.support.debs import entry, locked, packed_deb

NEWEST = 1_700_000_000
SOURCES = "deb http://archive.test/ x main\n"
ESSENTIAL = "\nEssential: yes"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("debian:12", "debian 12 (bookworm)"),
        ("debian:bullseye-slim", "debian 11 (bullseye)"),
        ("docker.io/library/debian:trixie", "debian 13 (trixie)"),
        ("ubuntu:20.04", "ubuntu 20.04 (focal)"),
        ("ubuntu:jammy@sha256:" + "0" * 64, "ubuntu 22.04 (jammy)"),
        ("debian:latest", None),
        ("nvidia/cuda:11.8.0-devel-ubuntu22.04", None),
        ("alpine:3", None),
        ("me/debian:12", None),
    ],
)
def test_releases_of_references(reference: str, name: str | None):
    release = release_of(reference)
    assert (release and release.name) == name


def test_the_name_and_the_hash_of_a_base():
    assert packages_hash({("a", "1.0"), ("b", "2:3")}) == packages_hash({("b", "2:3"), ("a", "1.0")})
    assert packages_hash({("a", "1.0")}) != packages_hash({("a", "1.1")})
    # No recipe can have this name.
    assert name_of(Release("debian", "12", "bookworm")) == "reprokit/own/base:debian-12"


def folder(name: str, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, mode=0o755, type=tarfile.DIRTYPE, **fields)


# The file system in which packages are configured.


@pytest.fixture
def stage(tmp_path: Path, store: Store):
    def make(**packages: tuple[str, list]) -> Stage:
        files = []
        for key, (fields, entries) in packages.items():
            name = key.replace("_", "-")
            control = f"Package: {name}\nVersion: 1\nArchitecture: all{fields}"
            files.append(packed_deb(tmp_path / f"{name}_1_all.deb", control, entries))
        return Stage.of([locked(file, store) for file in files], store)

    return make


def read(stage: Stage) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(stage.tar(SOURCES))))


def test_what_is_unpacked_and_what_is_configured_first(stage):
    made = stage(
        dpkg=(f"{ESSENTIAL}\nPre-Depends: libc (>= 1), tar | other\nDepends: later", []),
        libc=("\nDepends: libgcc", []),
        libgcc=("\nProvides: unused", []),
        mytar=("\nProvides: tar (= 1),\n nothing", []),
        later=("\nDepends: libc, absent", []),
        apt=("\nDepends: libc", []),
    )
    assert made.unpacked == {"dpkg", "libc", "libgcc", "mytar"}
    assert made.essential == made.unpacked | {"later"}
    assert made.newest == NEWEST
    names = read(made).getnames()
    assert sum(name.startswith(".reprokit/essential/") for name in names) == 5
    assert sum(name.startswith(".reprokit/others/") for name in names) == 1


@pytest.mark.parametrize("merged", [True, False])
def test_folders_move_into_usr_where_the_release_has_them_there(stage, merged):
    data = [
        folder("./bin"),
        entry("./bin/sh", b"sh", 0o755),
        entry("./bin/also", type=tarfile.LNKTYPE, linkname="./bin/sh"),
        entry("./bin/which", type=tarfile.SYMTYPE, linkname="/usr/bin/which"),
        entry("./lib64/ld.so", b"ld"),
        entry("./library/x", b"x"),
        entry("./usr/bin/which", b"which", 0o755),
    ]
    packages = {"dpkg": (ESSENTIAL, data), "usr_is_merged": ("", [])}
    tar = read(stage(**packages if merged else {"dpkg": packages["dpkg"]}))
    assert tar.extractfile("bin/also" if not merged else "usr/bin/also").read() == b"sh"
    assert tar.extractfile("etc/apt/sources.list").read() == SOURCES.encode()
    assert "library/x" in tar.getnames()
    if merged:
        links = {name: tar.getmember(name).linkname for name in ("bin", "lib64")}
        assert links == {"bin": "usr/bin", "lib64": "usr/lib64"}
        assert tar.getmember("usr/bin/which").isreg()
        # The links come last, so that nothing is written through one.
        assert tar.getnames().index("bin") > tar.getnames().index("usr/lib64/ld.so")
    else:
        assert tar.getmember("bin").isdir() and "lib64/ld.so" in tar.getnames()


def test_links_that_come_in_a_package_stay(stage):
    links = [entry("./bin", type=tarfile.SYMTYPE, linkname="usr/bin"), entry("./usr/bin/sh", b"sh")]
    tar = read(stage(dpkg=(ESSENTIAL, links), usr_is_merged=("", [])))
    assert tar.getmember("bin").linkname == "usr/bin" and "usr/usr" not in tar.getnames()


# What an engine exports of it, normalised.


def normalised(*entries: tuple[tarfile.TarInfo, bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(content_of(entries)))


def content_of(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return b"".join(RootFileSystem([out.getvalue()], io.BytesIO(), "test").tar(NEWEST))


def test_order_and_dates_are_always_the_same():
    entries = [
        folder("etc", mtime=1),
        entry("etc/b", b"b", mtime=NEWEST + 1, uid=7),
        entry("etc/a", b"a", mtime=5, uname="me"),
        entry("etc-x"),
    ]
    tar = normalised(*entries)
    assert tar.getnames() == ["etc", "etc/a", "etc/b", "etc-x"]
    assert [m.mtime for m in tar] == [NEWEST, 5, NEWEST, 0]
    assert (tar.getmember("etc/b").uid, tar.getmember("etc/a").uname) == (7, "")
    assert content_of(entries[::-1]) == content_of(entries)


def test_what_is_of_the_making_is_left_out():
    kept = [folder("dev"), folder("run"), folder("run/lock"), folder("tmp"), entry("var/log/wtmp"), entry("etc/passwd")]
    excluded = [".dockerenv", ".reprokit/1.deb", "dev/null", "run/x", "tmp/a\nb", "etc/hostname", "var/log/dpkg.log"]
    excluded += ["var/cache/ldconfig/aux-cache", "var/lib/dpkg/status-old", "etc/machine-id"]
    tar = normalised(*kept, *(entry(name, b"x") for name in excluded))
    assert sorted(tar.getnames()) == sorted(info.name for info, _ in kept)


def test_hard_links_stay_whole_where_the_first_name_is_another_or_goes():
    tar = normalised(
        entry("usr/z", b"zz"),
        entry("usr/a", type=tarfile.LNKTYPE, linkname="usr/z"),
        entry("tmp/gone", b"gone"),
        entry("usr/b", type=tarfile.LNKTYPE, linkname="tmp/gone"),
    )
    assert [(m.name, m.isreg(), m.linkname) for m in tar] == [
        ("usr/a", True, ""), ("usr/b", True, ""), ("usr/z", False, "usr/a")
    ]  # fmt: skip
    assert [tar.extractfile(name).read() for name in ("usr/a", "usr/b", "usr/z")] == [b"zz", b"gone", b"zz"]
    for target in ("etc", "nowhere", "../x"):
        with pytest.raises(UsageError):
            normalised(folder("etc"), entry("a", type=tarfile.LNKTYPE, linkname=target))


def test_capabilities_stay_and_other_attributes_go():
    info, content = entry("bin/ping", b"x")
    info.pax_headers = {"SCHILY.xattr.security.capability": "\x01\udc80", "SCHILY.xattr.user.x": "1"}
    headers = normalised((info, content)).getmember("bin/ping").pax_headers
    assert headers["SCHILY.xattr.security.capability"] == "\x01\udc80" and "SCHILY.xattr.user.x" not in headers


def test_only_installed_packages_count():
    status = (
        "Package: a\nStatus: install ok installed\nVersion: 1.0\nDescription: x\n Version: 9\n\n"
        "Package: b\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: c\nVersion: 2:3\nStatus: install ok installed\n"
    )
    assert installed(status) == {("a", "1.0"), ("c", "2:3")}
