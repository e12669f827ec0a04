"""The wheels and sdists that uv chooses from a folder for a lock."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.errors import SourceError
from reprokit.recipe.model import Sdist, Variant
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.kind import InputRequest, Tools
from reprokit.supply.kinds.wheels import KIND
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import best, resolve_wheels, supported
from reprokit.supply.kinds.wheels.uv import IndexFile, Package
from reprokit.supply.lock.model import Base, Distribution, VariantLock
from reprokit.supply.store import Store, sha256_of
from tests.support.fetching import local_mirrors
from tests.support.wheels import PYTHON_311, Lock, make_wheel, names


def test_wheels_and_what_they_need(index: Path, lock: Lock):
    top, low = make_wheel(index, "top", "1.0", ("low>=1",)), make_wheel(index, "low", "1.5")
    locked = lock(["top==1.0"])
    assert names(locked) == ["low==1.5", "top==1.0"]
    assert [w.sha256 for w in locked] == [sha256_of(low), sha256_of(top)]
    assert [w.size for w in locked] == [low.stat().st_size, top.stat().st_size]
    assert lock([]) == ()
    make_wheel(index, "torch", "2.0.1+cpu")  # a local build satisfies the public version
    assert names(lock(["torch==2.0.1"])) == ["torch==2.0.1+cpu"]


def test_another_python_another_wheel(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", ('backport; python_version < "3.8"',), "cp311-cp311-manylinux_2_17_x86_64")
    make_wheel(index, "top", "1.0", ('windows; sys_platform == "win32"',), "cp38-cp38-manylinux_2_31_x86_64")
    make_wheel(index, "top", "1.0", ('backport; python_version < "3.8"',), "cp36-cp36m-manylinux1_x86_64")
    make_wheel(index, "backport", "2.0")
    (wheel,) = lock(["top==1.0"])
    assert "cp311" in wheel.file
    (wheel,) = lock(["top==1.0"], Platform("3.8", "2.31"))
    assert "cp38" in wheel.file
    backport, wheel = lock(["top==1.0"], Platform("3.6", "2.27"))
    assert backport.name == "backport" and "cp36m" in wheel.file
    with pytest.raises(SourceError, match=r"no wheel of top==1\.0 for Python 3\.8 and glibc 2\.28"):
        lock(["top==1.0"], Platform("3.8", "2.28"))


@pytest.mark.slow
def test_a_missing_version_is_named_with_its_neighbours(index: Path, lock: Lock):
    for version in ("1.0", "1.1", "2.0", "3.0", "3.1", "9.0"):
        make_wheel(index, "top", version)
    with pytest.raises(SourceError) as error:
        lock(["top==2.5"])
    assert "no index has top==2.5" in error.value.message
    assert error.value.hint == "nearest versions that exist: 1.1, 2.0, 3.0, 3.1"


def test_conflicts_name_both_sides(index: Path, lock: Lock):
    for number, name in ((1, "one"), (2, "two")):
        make_wheel(index, name, "1.0", (f"low=={number}",))
        make_wheel(index, "low", str(number))
    with pytest.raises(SourceError, match="do not fit together") as error:
        lock(["one==1.0", "two==1.0"])
    for words in ("two depend on low==2", "one depend on low==1", "you require one==1.0 and two==1.0"):
        assert words in error.value.message


def test_sdists_are_taken_if_the_recipe_says_so_and_never_run(index: Path, lock: Lock, tmp_path: Path):
    file = index / "old-1.4.0.tar.gz"
    texts = {
        "setup.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n",
        "PKG-INFO": "Metadata-Version: 1.0\nName: old\nVersion: 1.4.0\n",
    }
    with tarfile.open(file, "w:gz") as archive:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            archive.add(tmp_path / name, f"old-1.4.0/{name}")
    make_wheel(index, "low", "1.0")
    make_wheel(index, "low", "2.0")
    with pytest.raises(SourceError, match=r"no wheel of old==1\.4\.0") as error:
        lock(["old==1.4.0"])
    assert "`sdists`" in error.value.hint
    locked = lock([], sdists=(Sdist(package="old==1.4.0", requires=["low<2"]),))
    assert names(locked) == ["low==1.0", "old==1.4.0"]
    assert (locked[1].file, locked[1].sha256) == (file.name, sha256_of(file))
    assert not (tmp_path / "ran").exists()


def test_what_is_locked_stays_until_it_is_freed(index: Path, lock: Lock):
    for name in ("low", "lower"):
        make_wheel(index, name, "1.0")
    make_wheel(index, "top", "1.0", ("low", "lower"))
    before = lock(["top==1.0"])
    for name in ("low", "lower"):
        make_wheel(index, name, "2.0")
    assert lock(["top==1.0"], keep=before) == before
    assert names(lock(["top==1.0"], keep=before, update=["Low"])) == ["low==2.0", "lower==1.0", "top==1.0"]
    assert names(lock(["top==1.0"])) == ["low==2.0", "lower==2.0", "top==1.0"]
    # A version that no longer fits is replaced.
    make_wheel(index, "top", "2.0", ("low>=2", "lower"))
    assert names(lock(["top==2.0"], keep=before)) == ["low==2.0", "lower==1.0", "top==2.0"]


def test_a_locked_file_stays_though_a_better_one_came(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    before = lock(["top==1.0"])
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    assert lock(["top==1.0"], keep=before) == before
    assert "2_28" in lock(["top==1.0"])[0].file
    # A file that does not fit the platform is replaced.
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux_2_17_x86_64")
    assert "cp38" in lock(["top==1.0"], Platform("3.8", "2.31"), keep=before)[0].file


def test_the_same_question_asks_no_index(index: Path, store: Store):
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))
    make_wheel(index, "top", "1.0", requires=("part",))
    for name in ("part", "other"):
        for version in ("1.5", "2.0"):
            make_wheel(index, name, version)

    def resolve(*constraints: str, platform: Platform = PYTHON_311) -> tuple[Distribution, ...]:
        return resolve_wheels(WheelRequest(["top==1.0"], platform, constraints=constraints), mirrors)

    first = resolve()
    assert names(first) == ["part==2.0", "top==1.0"]
    # Constraints are part of the question, and hold for what something requires.
    assert names(resolve("part<2", "other<2")) == ["part==1.5", "top==1.0"]
    for _ in range(2):  # files that left the store are fetched again
        fetch_all([wheel.locked_input() for wheel in first], mirrors)
        assert store.path(first[1].sha256).is_file()
        store.path(first[1].sha256).unlink()
    (index / first[1].file).unlink()
    assert resolve() == first
    with pytest.raises(SourceError):
        resolve(platform=Platform("3.8", "2.31"))


def test_the_file_that_pip_would_choose():
    tags = supported(PYTHON_311)
    files = [
        "top-1.0-py3-none-any.whl",
        "top-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "top-1.0-cp38-abi3-manylinux_2_28_x86_64.whl",
        "top-1.0-1-cp311-cp311-manylinux_2_28_x86_64.whl",
        "top-1.0-2-cp311-cp311-manylinux_2_28_x86_64.whl",
        "top-1.0-cp311-cp311-manylinux_2_39_x86_64.whl",
        "top-1.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "top-1.0.tar.gz",
    ]
    order = [files[i] for i in (4, 3, 1, 2, 0, 7)]
    for number, expected in enumerate(order):
        left = [IndexFile(f, "https://x.test/" + f) for f in files if f not in order[:number]]
        for listed in (left, left[::-1]):  # the order of an index has no influence
            assert best(Package("top", "1.0", tuple(listed)), tags, PYTHON_311).file == expected
    with pytest.raises(SourceError, match=r"no file of top==1\.0 fits Python 3\.11 and glibc 2\.36"):
        best(Package("top", "1.0", tuple(IndexFile(f, "") for f in files[5:7])), tags, PYTHON_311)


# What a block installs alone is locked alone, without the recipe's own pins.


@pytest.fixture
def tools(index: Path, store: Store) -> Tools:
    make_wheel(index, "torch", "2.0", requires=["setuptools", "shared"])
    for name, version in (("setuptools", "65.7"), ("setuptools", "80.0"), ("shared", "1.0"), ("own", "1.0")):
        make_wheel(index, name, version)
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))
    return Tools(mirrors, None, pytest.fail)  # type: ignore[arg-type]


def locked(
    tools: Tools, *own: str, old: VariantLock | None = None, checksums: Mapping[str, Sequence[str]] = {}
) -> tuple[Distribution, ...]:
    spec = SimpleNamespace(name="torch", alone=True)
    target: Any = SimpleNamespace(
        variant=Variant(base="debian:12"),
        uses=[SimpleNamespace(spec=spec, wheel="torch==2.0", bounds=[])],
        requirements=["torch==2.0", *own],
        checksums=checksums,
    )
    request = InputRequest(target, "x86_64", (), PYTHON_311, old)
    return KIND.resolve(request, tools)["wheels"]


def test_the_papers_pins_are_installed_over_what_torch_brings(tools: Tools):
    both = ("torch", "wheels")
    one, two = locked(tools, "setuptools==65.7", "own==1.0"), locked(tools, "own==1.0")
    assert {(wheel.name, wheel.version): wheel.blocks for wheel in one} == {
        ("own", "1.0"): ("wheels",),
        ("setuptools", "65.7"): ("wheels",),
        ("setuptools", "80.0"): ("torch",),
        ("shared", "1.0"): both,
        ("torch", "2.0"): both,
    }
    # Papers with the same torch have its set in common.
    assert [w.sha256 for w in one if "torch" in w.blocks] == [w.sha256 for w in two if "torch" in w.blocks]


def test_checksums_of_requirements_files_are_not_about_what_a_block_brings(tools: Tools):
    (pinned,) = (wheel.sha256 for wheel in locked(tools, "setuptools==65.7") if wheel.version == "65.7")
    checksums = {"setuptools": [pinned]}
    wheels = locked(tools, "setuptools==65.7", checksums=checksums)
    assert ("setuptools", "80.0") in {(wheel.name, wheel.version) for wheel in wheels}
    with pytest.raises(SourceError, match=r"shared.* allows"):
        locked(tools, "setuptools==65.7", checksums={**checksums, "shared": ["0" * 64]})
    with pytest.raises(SourceError, match=r"torch.* allows"):
        locked(tools, checksums={"torch": ["0" * 64]})


def test_what_was_locked_stays(tools: Tools, index: Path):
    first = locked(tools, "own==1.0")
    old = VariantLock(
        reprokit="1", inputs={}, python="3.11", glibc="2.36", machine="x86_64",
        base=Base(reference="debian:12", digest="sha256:" + "1" * 64), wheels=first,
    )  # fmt: skip
    make_wheel(index, "shared", "2.0")
    assert locked(tools, "own==1.0", old=old) == first
