from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply import wheels
from reprokit.supply.store import Store
from reprokit.supply.wheels import Platform, WheelSet, resolve

from .conftest import make_wheel

PYTHON_311 = Platform("3.11", "2.36")


def names(found: WheelSet) -> list[str]:
    return [f"{w.name}=={w.version}" for w in found.wheels]


def test_wheels_and_what_they_need(index: Path, store: Store):
    make_wheel(index, "top", "1.0", ("low>=1",))
    make_wheel(index, "low", "1.5")
    found = resolve(["top==1.0"], PYTHON_311, [], store)
    assert names(found) == ["low==1.5", "top==1.0"]
    assert all(store.path(w.sha256).stat().st_size == w.size for w in found.wheels)


def test_the_same_question_starts_no_pip(index: Path, store: Store, monkeypatch: pytest.MonkeyPatch):
    make_wheel(index, "top", "1.0")
    first = resolve(["top==1.0"], PYTHON_311, [], store)
    monkeypatch.setattr(wheels.pip, "download", lambda *a: pytest.fail("pip was started"))
    assert resolve(["top==1.0"], PYTHON_311, [], store) == first
    assert resolve([], PYTHON_311, [], store).wheels == ()


def test_another_python_is_another_question(index: Path, store: Store):
    make_wheel(index, "top", "1.0", tag="cp311-cp311-manylinux_2_17_x86_64")
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux2014_x86_64")
    assert "cp311" in resolve(["top==1.0"], PYTHON_311, [], store).wheels[0].file
    assert "cp38" in resolve(["top==1.0"], Platform("3.8", "2.31"), [], store).wheels[0].file


def test_a_wheel_that_the_c_library_cannot_load_is_not_taken(index: Path, store: Store):
    make_wheel(index, "top", "1.0", tag="cp38-cp38-manylinux_2_28_x86_64")
    with pytest.raises(SourceError, match=r"no index has a wheel of top for Python 3\.8"):
        resolve(["top==1.0"], Platform("3.8", "2.27"), [], store)


def test_a_dependency_of_the_images_python_only(index: Path, store: Store):
    # pip, which runs on a newer Python, judges this marker false.
    make_wheel(index, "top", "1.0", ('backport; python_version < "3.8"', 'windows; sys_platform == "win32"'))
    make_wheel(index, "backport", "2.0", ("deeper",))
    make_wheel(index, "deeper", "3.0")
    assert names(resolve(["top==1.0"], Platform("3.7", "2.28"), [], store)) == [
        "backport==2.0", "deeper==3.0", "top==1.0",
    ]  # fmt: skip


def test_extras_are_followed(index: Path, store: Store):
    make_wheel(index, "top", "1.0", ('more; extra == "all"', 'less; extra == "none"'))
    make_wheel(index, "more", "1.0")
    assert names(resolve(["top[all]==1.0"], PYTHON_311, [], store)) == ["more==1.0", "top==1.0"]


def test_a_missing_version_is_named_with_its_neighbours(index: Path, store: Store):
    for version in ("1.0", "1.1", "2.0", "3.0", "3.1", "9.0"):
        make_wheel(index, "top", version)
    with pytest.raises(SourceError) as error:
        resolve(["top==2.5"], PYTHON_311, [], store)
    assert "no wheel of top==2.5 for Python 3.11" in error.value.message
    assert error.value.hint == "nearest versions that exist: 1.1, 2.0, 3.0, 3.1"
    assert not list((store.root / "tmp").iterdir())


def test_sdists_are_not_taken(index: Path, store: Store):
    (index / "top-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(SourceError, match="no index has a wheel of top"):
        resolve(["top==1.0"], PYTHON_311, [], store)


def test_conflicts_name_both_sides(index: Path, store: Store):
    make_wheel(index, "one", "1.0", ("low==1",))
    make_wheel(index, "two", "1.0", ("low==2",))
    make_wheel(index, "low", "1")
    make_wheel(index, "low", "2")
    with pytest.raises(
        SourceError, match=r"do not fit together.*one 1\.0 depends on low==1.*two 1\.0 depends on low==2"
    ):
        resolve(["one==1.0", "two==1.0"], PYTHON_311, [], store)


def test_the_recipes_indexes_come_second(index: Path, store: Store, upstream, monkeypatch: pytest.MonkeyPatch):
    wheel = make_wheel(index.parent / "elsewhere", "top", "1.0")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{upstream.port}/mine/")
    page = {"Content-Type": "text/html"}
    upstream.answers["/mine/top/"] = (200, page, b"<html></html>")
    upstream.answers["/recipe/top/"] = (200, page, f'<a href="/{wheel.name}">{wheel.name}</a>'.encode())
    upstream.answers[f"/{wheel.name}"] = (200, {}, wheel.read_bytes())
    said: list[str] = []
    found = resolve(["top==1.0"], PYTHON_311, [f"http://127.0.0.1:{upstream.port}/recipe/"], store, said.append)
    assert names(found) == ["top==1.0"]
    assert "asking the recipe's own indexes too" in said[0]
    asked = [path for _, path, _, _ in upstream.requests]
    assert asked.index("/mine/top/") < asked.index("/recipe/top/")


def test_files_that_left_the_store_are_noticed(index: Path, store: Store):
    make_wheel(index, "top", "1.0")
    found = resolve(["top==1.0"], PYTHON_311, [], store)
    assert not wheels.missing(found, store)
    store.path(found.wheels[0].sha256).unlink()
    assert wheels.missing(found, store)
    wheels.forget(["top==1.0"], PYTHON_311, [], store)
    assert resolve(["top==1.0"], PYTHON_311, [], store) == found
    assert not wheels.missing(found, store)


def test_the_key_of_a_set_is_that_of_its_content(index: Path, store: Store):
    make_wheel(index, "top", "1.0")
    make_wheel(index, "low", "1.0")
    both = resolve(["top==1.0", "low==1.0"], PYTHON_311, [], store)
    assert both.key == WheelSet(both.wheels[::-1]).key
    assert both.key != WheelSet(both.wheels[:1]).key


def test_platform_tags_run_from_the_c_library_down():
    tags = Platform("3.11", "2.31").tags()
    assert tags[0] == "manylinux_2_31_x86_64"
    assert "manylinux_2_17_x86_64" in tags and "manylinux2014_x86_64" in tags
    assert "manylinux_2_32_x86_64" not in tags
    assert "manylinux1_aarch64" not in Platform("3.11", "2.31", "aarch64").tags()
