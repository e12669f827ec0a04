"""The wheels and sdists that uv chooses from a folder for a lock."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.errors import SourceError
from reprokit.recipe.packages import Sdist
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import best, supported
from reprokit.supply.kinds.wheels.uv import IndexFile, Package
from reprokit.supply.store import Store, sha256_of
from tests.support.wheels import PYTHON_311, Lock, make_wheel, names


def test_wheels_and_what_they_need(index: Path, lock: Lock, store: Store):
    top, low = make_wheel(index, "top", "1.0", ("low>=1",)), make_wheel(index, "low", "1.5")
    found = lock(["top==1.0"])
    assert names(found) == ["low==1.5", "top==1.0"]
    assert [w.sha256 for w in found] == [sha256_of(low), sha256_of(top)]
    assert [w.size for w in found] == [low.stat().st_size, top.stat().st_size]
    assert lock([]) == ()


def test_another_python_another_wheel(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux2014_x86_64")
    make_wheel(index, "top", "1.0", tag="cp36-cp36m-manylinux1_x86_64")
    assert "cp311" in lock(["top==1.0"])[0].file
    assert "cp38" in lock(["top==1.0"], Platform("3.8", "2.31"))[0].file
    assert "cp36m" in lock(["top==1.0"], Platform("3.6", "2.27"))[0].file


def test_a_wheel_that_the_c_library_cannot_load_is_not_taken(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux_2_31_x86_64")
    with pytest.raises(SourceError, match=r"no wheel of top==1\.0 for Python 3\.8 and glibc 2\.28"):
        lock(["top==1.0"], Platform("3.8", "2.28"))


def test_markers_are_judged_for_the_image(index: Path, lock: Lock):
    make_wheel(index, "top", "1.0", ('backport; python_version < "3.8"', 'windows; sys_platform == "win32"'))
    make_wheel(index, "backport", "2.0")
    assert names(lock(["top==1.0"], Platform("3.7", "2.28"))) == ["backport==2.0", "top==1.0"]
    assert names(lock(["top==1.0"])) == ["top==1.0"]


def test_a_local_build_satisfies_the_public_version(index: Path, lock: Lock):
    make_wheel(index, "torch", "2.0.1+cpu")
    assert names(lock(["torch==2.0.1"])) == ["torch==2.0.1+cpu"]


@pytest.mark.slow
def test_a_missing_version_is_named_with_its_neighbours(index: Path, lock: Lock):
    for version in ("1.0", "1.1", "2.0", "3.0", "3.1", "9.0"):
        make_wheel(index, "top", version)
    with pytest.raises(SourceError) as error:
        lock(["top==2.5"])
    assert "no index has top==2.5" in error.value.message
    assert error.value.hint == "nearest versions that exist: 1.1, 2.0, 3.0, 3.1"


def test_conflicts_name_both_sides(index: Path, lock: Lock):
    make_wheel(index, "one", "1.0", ("low==1",))
    make_wheel(index, "two", "1.0", ("low==2",))
    make_wheel(index, "low", "1")
    make_wheel(index, "low", "2")
    with pytest.raises(SourceError, match="do not fit together") as error:
        lock(["one==1.0", "two==1.0"])
    for words in ("two depend on low==2", "one depend on low==1", "you require one==1.0 and two==1.0"):
        assert words in error.value.message


def sdist(folder: Path, name: str, version: str, tmp_path: Path) -> Path:
    """An sdist whose setup.py would leave a trace if it ran."""
    source = tmp_path / f"{name}-{version}"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (source / "PKG-INFO").write_text(f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n")
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    return folder / f"{name}-{version}.tar.gz"


def test_sdists_are_taken_where_the_recipe_says_so_and_never_run(index: Path, lock: Lock, tmp_path: Path):
    file = sdist(index, "old", "1.4.0", tmp_path)
    make_wheel(index, "low", "1.0")
    make_wheel(index, "low", "2.0")
    with pytest.raises(SourceError, match=r"no wheel of old==1\.4\.0") as error:
        lock(["old==1.4.0"])
    assert "`sdists`" in error.value.hint
    found = lock([], sdists=(Sdist(package="old==1.4.0", requires=["low<2"]),))
    assert names(found) == ["low==1.0", "old==1.4.0"]
    assert (found[1].file, found[1].sha256) == (file.name, sha256_of(file))
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
        left = tuple(IndexFile(f, "https://x.test/" + f) for f in files if f not in order[:number])
        assert best(Package("top", "1.0", left), tags, PYTHON_311).file == expected
    with pytest.raises(SourceError, match=r"no file of top==1\.0 fits Python 3\.11 and glibc 2\.36"):
        best(Package("top", "1.0", tuple(IndexFile(f, "") for f in files[5:7])), tags, PYTHON_311)


@given(st.permutations(range(6)))
def test_the_choice_does_not_depend_on_the_order_of_the_index(order: list[int]):
    files = [f"top-1.0-{n % 3}-cp311-cp311-manylinux_2_{17 + 11 * (n % 2)}_x86_64.whl" for n in range(6)]
    package = Package("top", "1.0", tuple(IndexFile(files[n], "") for n in order))
    assert best(package, supported(PYTHON_311), PYTHON_311).file == "top-1.0-2-cp311-cp311-manylinux_2_28_x86_64.whl"
