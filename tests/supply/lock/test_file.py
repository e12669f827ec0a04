from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.errors import EngineError, UsageError
from reprokit.supply.lock import file
from reprokit.supply.lock.model import KINDS, AptPackage, Base, Lock, PlainFile, VariantLock
from reprokit.supply.store import Store

ZERO = "0" * 64


def variant(**fields: object) -> VariantLock:
    inputs = dict.fromkeys(("base", *KINDS), ZERO)
    base = Base(reference="debian:12", digest=f"sha256:{ZERO}")
    start = {"reprokit": "0.1", "inputs": inputs, "python": "3.11", "glibc": "2.36", "machine": "x86_64", "base": base}
    return VariantLock(**{**start, **fields})


def package(name: str, version: str = "1.0-1") -> AptPackage:
    path = f"pool/main/{name}.deb"
    return AptPackage(
        sha256=ZERO, size=3, name=name, version=version, architecture="amd64", archive="debian", path=path
    )


def a_lock() -> Lock:
    split = package("zlib1g").model_copy(update={"blocks": ("python", "git")})
    data = PlainFile(sha256=ZERO, size=1, name="reddit.zip", urls=("https://data.test/reddit.zip",))
    return Lock(
        recipe="x", variants={"cpu": variant(apt_as_of="20261121T101500Z", apt=(package("curl"), split))}, data=(data,)
    )


def test_what_is_written_is_read(tmp_path: Path):
    path = file.lock_path(tmp_path / "recipes" / "x.yaml")
    assert path == tmp_path / "recipes" / "x.lock.yaml"
    file.write(path, a_lock())
    assert file.read(path) == a_lock()
    assert [p.name for p in path.parent.iterdir()] == ["x.lock.yaml"]
    # A package is one line that begins with its name.
    lines = file.text_of(a_lock()).splitlines()
    assert lines[0].startswith("#")
    packages = [line.strip() for line in lines if "pool/main" in line]
    assert packages[0].startswith("- {name: curl, version: 1.0-1, ") and packages[0].endswith(f"sha256: '{ZERO}'}}")
    assert "blocks: [python, git], size: 3" in packages[1] and packages[1].endswith(f"sha256: '{ZERO}'}}")


@given(st.from_regex(r"[0-9][0-9A-Za-z.+~-]{0,9}", fullmatch=True))
def test_versions_that_look_like_numbers_or_dates_stay_text(version: str):
    lock = Lock(recipe="x", variants={"cpu": variant(apt=(package("a0", version),))})
    assert file.parse(file.text_of(lock), "x.lock.yaml", "x") == lock


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("architecture: amd64", "architecture: AMD64", "variants.cpu.apt.0.architecture: "),
        ("size: 3", "size: three", "variants.cpu.apt.0.size: "),
        ("name: curl", "nam: curl", "variants.cpu.apt.0.name: Field required (and 1 more)"),
        ("pool/main/curl", "../main/curl", "variants.cpu.apt.0.path: "),
        ("size: 3", f"size: {10**30}", "variants.cpu.apt.0.size: "),
        ("python: '3.11'", "python: 3.11 --index-url=x", "variants.cpu.python: "),
        ("glibc: '2.36'", "glibc: 2/36", "variants.cpu.glibc: "),
        ("machine: x86_64", "machine: ../x", "variants.cpu.machine: "),
        ("reprokit: '0.1'", "reprokit: $(id)", "variants.cpu.reprokit: "),
        ("apt_as_of: 20261121T101500Z", "apt_as_of: now", "variants.cpu.apt_as_of: "),
    ],
)
def test_an_error_names_field_and_line(before: str, after: str, message: str):
    text = file.text_of(a_lock()).replace(before, after, 1)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if after in line)
    with pytest.raises(UsageError) as error:
        file.parse(text, "x.lock.yaml", "x")
    assert error.value.message.startswith(message)
    assert error.value.where == f"x.lock.yaml:{line}" and "reprokit lock x" in error.value.hint


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "version: 2\nrecipe: x\n", "recipe: y\n", "a: &a 1\nb: *a\n", ""])
def test_what_is_no_lock_of_this_recipe_is_refused(text: str):
    with pytest.raises(UsageError, match=r"."):
        file.parse(text, "x.lock.yaml", "x")


def test_a_file_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        file.read(tmp_path / "x.lock.yaml")
    (tmp_path / "x.lock.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read the lock"):
        file.read(tmp_path / "x.lock.yaml")


def test_a_write_that_fails_leaves_the_old_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x.lock.yaml"
    file.write(path, a_lock())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file.os, "fsync", full)
    with pytest.raises(EngineError, match="the lock cannot be written: No space left on device") as raised:
        file.write(path, Lock(recipe="x"))
    assert raised.value.where == str(path) and raised.value.hint
    assert file.read(path) == a_lock()
    assert [p.name for p in tmp_path.iterdir()] == ["x.lock.yaml"]


def test_a_fetch_completes_no_lock_of_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x.lock.yaml"
    file.write(path, a_lock())
    before = path.read_bytes()

    def read_only(_: object, mode: int) -> bool:
        return mode != os.W_OK

    monkeypatch.setattr(file.os, "access", read_only)
    monkeypatch.setattr(Lock, "completed", lambda self, _: self.model_copy(update={"data": ()}))
    file.complete(path, Store(tmp_path / "store"))
    assert path.read_bytes() == before
