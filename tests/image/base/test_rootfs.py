"""Normalising the file system that an engine exports."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

import pytest

from reprokit.errors import UsageError
from reprokit.image.base.rootfs import RootFileSystem, installed
from tests.support.debs import entry

NEWEST = 1_700_000_000


def exported(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> list[bytes]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return [out.getvalue()]


def normalised(*entries: tuple[tarfile.TarInfo, bytes]) -> tarfile.TarFile:
    made = RootFileSystem(exported(entries), io.BytesIO(), "test")
    return tarfile.open(fileobj=io.BytesIO(b"".join(made.tar(NEWEST))))


def folder(name: str, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, mode=0o755, type=tarfile.DIRTYPE, **fields)


def test_order_and_dates_are_always_the_same():
    here = [
        folder("etc", mtime=1),
        entry("etc/b", b"b", mtime=NEWEST + 1, uid=7),
        entry("etc/a", b"a", mtime=5, uname="me"),
        entry("etc-x"),
    ]
    tar = normalised(*here)
    assert tar.getnames() == ["etc", "etc/a", "etc/b", "etc-x"]
    assert [m.mtime for m in tar] == [NEWEST, 5, NEWEST, 0]
    assert (tar.getmember("etc/b").uid, tar.getmember("etc/a").uname) == (7, "")
    again = RootFileSystem(exported(here[::-1]), io.BytesIO(), "test")
    tar.fileobj.seek(0)
    assert b"".join(again.tar(NEWEST)) == tar.fileobj.read()


def test_what_is_of_the_making_is_left_out():
    kept = [folder("dev"), folder("run"), folder("run/lock"), folder("tmp"), entry("var/log/wtmp"), entry("etc/passwd")]
    left = [".dockerenv", ".reprokit/1.deb", "dev/null", "run/x", "tmp/a\nb", "etc/hostname", "var/log/dpkg.log"]
    left += ["var/cache/ldconfig/aux-cache", "var/lib/dpkg/status-old", "etc/machine-id"]
    tar = normalised(*kept, *(entry(name, b"x") for name in left))
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


@pytest.mark.parametrize("target", ["etc", "nowhere", "../x"])
def test_a_hard_link_to_no_file(target: str):
    with pytest.raises(UsageError):
        normalised(folder("etc"), entry("a", type=tarfile.LNKTYPE, linkname=target))


def test_capabilities_stay_and_other_attributes_go():
    info, content = entry("bin/ping", b"x")
    info.pax_headers = {"SCHILY.xattr.security.capability": "\x01\udc80", "SCHILY.xattr.user.x": "1"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(content))
    made = RootFileSystem([out.getvalue()], io.BytesIO(), "test")
    with tarfile.open(fileobj=io.BytesIO(b"".join(made.tar(NEWEST)))) as tar:
        headers = tar.getmember("bin/ping").pax_headers
    assert headers["SCHILY.xattr.security.capability"] == "\x01\udc80" and "SCHILY.xattr.user.x" not in headers


def test_only_installed_packages_count():
    status = (
        "Package: a\nStatus: install ok installed\nVersion: 1.0\nDescription: x\n Version: 9\n\n"
        "Package: b\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: c\nVersion: 2:3\nStatus: install ok installed\n"
    )
    assert installed(status) == {("a", "1.0"), ("c", "2:3")}
