"""The file system in which packages are configured."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from reprokit.image.base.stage import Stage
from reprokit.supply.store import Store
from tests.support.debs import entry, locked, packed_deb

SOURCES = "deb http://archive.test/ x main\n"


@pytest.fixture
def stage(tmp_path: Path):
    store = Store(tmp_path / "store")

    def make(**packages: tuple[str, list]) -> Stage:
        files = []
        for name, (fields, entries) in packages.items():
            name = name.replace("_", "-")
            control = f"Package: {name}\nVersion: 1\nArchitecture: all{fields}"
            files.append(packed_deb(tmp_path / f"{name}_1_all.deb", control, entries))
        return Stage.of([locked(file, store) for file in files], store)

    return make


ESSENTIAL = "\nEssential: yes"


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
    assert made.newest == 1_700_000_000
    names = read(made).getnames()
    assert sum(name.startswith(".reprokit/essential/") for name in names) == 5
    assert sum(name.startswith(".reprokit/others/") for name in names) == 1


@pytest.mark.parametrize("merged", [True, False])
def test_folders_move_into_usr_where_the_release_has_them_there(stage, merged):
    data = [
        entry("./bin", mode=0o755, type=tarfile.DIRTYPE),
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
