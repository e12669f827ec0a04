"""`reprokit lock`: what it refuses, and that a failure ends with its cause."""

from __future__ import annotations

import json
import re

import pytest

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError, WorkFailed
from reprokit.image.lock import resolve
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.recipe import find
from reprokit.recipe.find import Target, target
from reprokit.supply.lock.file import lock_path, read, write
from reprokit.supply.lock.model import Base, Distribution, Lock, PlainFile, VariantLock

RECIPE = "variants:\n  cpu: {base: 'debian:12', apt: [llvm-99-dev], blocks: [apt]}\n"


def test_a_failed_lock_ends_with_its_cause(call, recipe, monkeypatch: pytest.MonkeyPatch, tmp_path):
    def fail(*_: object) -> None:
        raise SourceError("apt cannot resolve llvm-99-dev: E: Unable to locate package llvm-99-dev")

    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Engine, "connect", lambda: None)
    monkeypatch.setattr(resolve, "lock_variant", fail)
    recipe("gnn", RECIPE)
    error = call("lock", "gnn").exception
    assert isinstance(error, SourceError)
    assert "llvm-99-dev" in error.explanation[0] and error.explanation[1].startswith("remedy: ")
    assert re.match(
        r"`reprokit lock gnn:cpu` failed on .*recipes/gnn.yaml\)\nline 1: ", call("explain", "--last").stdout
    )


def test_a_read_only_checkout_is_refused_before_anything_is_resolved(
    call, recipe, monkeypatch: pytest.MonkeyPatch, tmp_path
):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Engine, "connect", lambda: None)
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr(resolve, "lock_variant", lambda *_: pytest.fail("resolved"))
    recipe("gnn", RECIPE)
    error = call("lock", "gnn").exception
    assert isinstance(error, EngineError)
    assert "read-only" in error.message and error.where.endswith("recipes") and "recipes/" in error.hint


@pytest.mark.parametrize("option", [["--update", "all"], ["--data"], ["--as-of", "2024-03-01"], ["--force"]])
def test_a_check_takes_no_option_that_changes_a_lock(call, recipe, option):
    recipe("gnn", RECIPE)
    error = call("lock", "--check", *option, "gnn").exception
    assert isinstance(error, UsageError) and "--check writes nothing" in error.message


def test_a_variant_without_a_lock_fails_the_check(call, recipe, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [tmp_path / "recipes"])
    recipe("gnn", "variants: {cpu: {base: 'debian:12'}, other: {base: 'debian:12'}}\n")
    assert (call("lock", "--check").exit_code, call("lock", "--check", "gnn").exit_code) == (0, 1)
    cpu = target("gnn:cpu")
    found = sections(cpu, render(cpu), "x86_64")
    base = Base(reference="debian:12", digest="sha256:" + "1" * 64)
    lock = VariantLock(reprokit="1", inputs=found, python="", glibc="2.36", machine="x86_64", base=base)
    write(lock_path(cpu.path), Lock(recipe="gnn", variants={"cpu": lock}))
    assert call("lock", "--check", "gnn:cpu").exit_code == 0
    done = call("lock", "--check")
    assert (done.exit_code, done.stdout) == (1, "gnn:cpu: up to date\ngnn:other: no lock\n")
    write(lock_path(cpu.path), Lock(recipe="gnn", variants={"cpu": lock, "other": lock}))
    assert call("lock", "--check").exit_code == 0


def test_a_check_as_json(call, recipe):
    recipe("gnn", "variants: {cpu: {base: debian:12}}")
    done = call("lock", "--check", "--json", "gnn")
    assert done.exit_code == 1
    missing = [{"recipe": "gnn:cpu", "state": "missing", "stale": []}]
    assert json.loads(done.stdout) == {"ok": False, "locks": missing}


DATA = "data: [{{name: d.csv, urls: ['https://data.test/{folder}/d.csv'], sha256: '{sum}'}}]\n"


def test_changed_data_fails_the_check_and_the_fetch(call, recipe):
    variants = "variants: {cpu: {base: 'debian:12'}}\n"
    recipe("gnn", variants + DATA.format(folder="v1", sum="1" * 64))
    cpu = target("gnn:cpu")
    file = PlainFile(name="d.csv", urls=("https://data.test/v1/d.csv",), sha256="1" * 64, size=1)
    write(lock_path(cpu.path), Lock(recipe="gnn", variants={"cpu": locked(cpu)}, data=(file,)))
    assert call("lock", "--check", "gnn").exit_code == 0
    recipe("gnn", variants + DATA.format(folder="v2", sum="2" * 64))
    done = call("lock", "--check", "gnn")
    assert (done.exit_code, done.stdout) == (1, "gnn:cpu: stale: data d.csv\n")
    assert "data d.csv changed" in call("fetch", "--data", "gnn:cpu").exception.message


def locked(target: Target) -> VariantLock:
    found = sections(target, render(target), "x86_64")
    base = Base(reference="debian:12", digest="sha256:" + "1" * 64)
    return VariantLock(reprokit="1", inputs=found, python="", glibc="2.36", machine="x86_64", base=base)


def test_what_another_process_locks_meanwhile_stays(call, recipe, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Engine, "connect", lambda: None)
    listed = [f"{{name: {name}, urls: ['https://data.test/{name}']}}" for name in ("a", "b")]
    recipe(
        "gnn", f"variants: {{cpu: {{base: 'debian:12'}}, gpu: {{base: 'debian:12'}}}}\ndata: [{', '.join(listed)}]\n"
    )
    path = lock_path(target("gnn:cpu").path)
    meanwhile = PlainFile(name="a", urls=("https://data.test/a",), sha256="1" * 64, size=1)

    def resolve_slowly(engine: object, target: Target, *_: object) -> VariantLock:
        other = Lock(recipe="gnn", variants={"gpu": locked(find.target("gnn:gpu"))}, data=(meanwhile,))
        write(path, other)
        return locked(target)

    monkeypatch.setattr(resolve, "lock_variant", resolve_slowly)
    assert call("lock", "gnn:cpu").exit_code == 0
    found = read(path)
    assert list(found.variants) == ["cpu", "gpu"] and found.data == (meanwhile,)


def test_what_the_facts_forbid_is_locked_only_by_force(call, recipe, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Engine, "connect", lambda: None)
    recipe("gnn", "variants: {cpu: {base: 'debian:12', pins: {numpy: '2.4.6'}}}\n")
    wheel = {"name": "matplotlib", "version": "3.7.1", "file": "matplotlib-3.7.1-py3-none-any.whl", "size": 1}
    wheels = (Distribution(**wheel, sha256="1" * 64),)
    monkeypatch.setattr(
        resolve, "lock_variant", lambda engine, target, *_: locked(target).model_copy(update={"wheels": wheels})
    )
    error = call("lock", "gnn").exception
    assert isinstance(error, WorkFailed) and "compiled with NumPy 1 (matplotlib 3.7.1: locked by " in error.message
    assert "lock anyway with --force" in error.hint
    path = lock_path(target("gnn:cpu").path)
    assert not path.exists()
    assert call("lock", "gnn", "--force").exit_code == 0
    assert read(path).variants["cpu"].wheels == wheels
    assert "locked by" in call("check", "gnn").stdout and "cannot work" in call("build", "gnn").exception.message
