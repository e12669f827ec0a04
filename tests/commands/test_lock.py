"""The verbs of locks and bundles: `lock`, `fetch`, `outdated`, `verify`, `load`, `diff`."""

from __future__ import annotations

import json
import re
from hashlib import sha256

import pytest

from reprokit import paths
from reprokit.bundle import load
from reprokit.commands import verify
from reprokit.engine import Engine
from reprokit.errors import EngineError, SourceError, UsageError, WorkFailed
from reprokit.image.lock import outdated, resolve
from reprokit.image.lock import read as lock_read
from reprokit.image.lock.read import sections
from reprokit.image.render import render
from reprokit.recipe.find import Target, target
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.file import lock_path, read, write
from reprokit.supply.lock.model import Base, Distribution, Lock, PlainFile, VariantLock
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.verify.compare import ComparedLayer, FileChange
from reprokit.verify.run import Verification
from tests.support.stores import a_lock, plain, put, write_recipe

CPU = "variants: {cpu: {base: 'debian:12'}}\n"
TWO = "variants: {cpu: {base: 'debian:12'}, gpu: {base: 'debian:12'}}\n"


@pytest.fixture
def no_engine(monkeypatch):
    monkeypatch.setattr(Engine, "connect", lambda: None)


def locked(target: Target) -> VariantLock:
    base = Base(reference="debian:12", digest="sha256:" + "1" * 64)
    inputs = sections(target, render(target), "x86_64")
    return VariantLock(reprokit="1", inputs=inputs, python="", glibc="2.36", machine="x86_64", base=base)


@pytest.mark.usefixtures("no_engine")
def test_a_failed_lock_ends_with_its_cause(call, error, recipe, monkeypatch):
    def fail(*_: object) -> None:
        raise SourceError("apt cannot resolve llvm-99-dev: E: Unable to locate package llvm-99-dev")

    monkeypatch.setattr(resolve, "lock_variant", fail)
    recipe("gnn", "variants:\n  cpu: {base: 'debian:12', apt: [llvm-99-dev], blocks: [apt]}\n")
    failure = error(SourceError, "lock", "gnn")
    assert "llvm-99-dev" in failure.explanation[0] and failure.explanation[1].startswith("remedy: ")
    explained = call("explain", "--last").stdout
    assert re.match(r"`reprokit lock gnn:cpu` failed on .*recipes/gnn.yaml\)\nline 1: ", explained)


def test_a_failed_load_ends_with_its_cause(call, error, monkeypatch):
    def fail(*_: object) -> None:
        raise EngineError("write /var/lib/docker/tmp/x: no space left on device", "gnn.rkit")

    monkeypatch.setattr(load, "checked", fail)
    failure = error(EngineError, "load", "gnn.rkit")
    assert "the disk of the container engine is full" in failure.explanation[0]
    assert "the disk of the container engine is full" in call("explain", "--last").stdout


@pytest.mark.usefixtures("no_engine")
def test_a_read_only_checkout_is_refused_before_anything_is_resolved(error, recipe, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr(resolve, "lock_variant", lambda *_: pytest.fail("resolved"))
    recipe("gnn", CPU)
    refused = error(EngineError, "lock", "gnn")
    assert "read-only" in refused.message and refused.where.endswith("recipes") and "recipes/" in refused.hint


@pytest.mark.parametrize("option", [["--update", "all"], ["--data"], ["--as-of", "2024-03-01"], ["--force"]])
def test_a_check_takes_no_option_that_changes_a_lock(error, recipe, option):
    recipe("gnn", CPU)
    assert "--check writes nothing" in error(UsageError, "lock", "--check", *option, "gnn").message


def test_a_variant_without_a_lock_fails_the_check(call, recipe, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [tmp_path / "recipes"])
    recipe("gnn", TWO)
    assert (call("lock", "--check").exit_code, call("lock", "--check", "gnn").exit_code) == (0, 1)
    cpu = target("gnn:cpu")
    write(lock_path(cpu.path), Lock(recipe="gnn", variants={"cpu": locked(cpu)}))
    assert call("lock", "--check", "gnn:cpu").exit_code == 0
    done = call("lock", "--check")
    assert (done.exit_code, done.stdout) == (1, "gnn:cpu: up to date\ngnn:gpu: no lock\n")
    done = call("lock", "--check", "--json", "gnn:gpu")
    missing = [{"recipe": "gnn:gpu", "state": "missing", "stale": []}]
    assert (done.exit_code, json.loads(done.stdout)) == (1, {"ok": False, "locks": missing})
    write(lock_path(cpu.path), Lock(recipe="gnn", variants={"cpu": locked(cpu), "gpu": locked(cpu)}))
    assert call("lock", "--check").exit_code == 0


def test_changed_data_fails_the_check_and_the_fetch(call, error, recipe):
    def data(folder: str, sum: str) -> str:
        url = f"https://data.test/{folder}/d.csv"
        return f"{CPU}data: [{{name: d.csv, urls: ['{url}'], sha256: '{sum * 64}'}}]\n"

    recipe("gnn", data("v1", "1"))
    cpu = target("gnn:cpu")
    file = PlainFile(name="d.csv", urls=("https://data.test/v1/d.csv",), sha256="1" * 64, size=1)
    write(lock_path(cpu.path), Lock(recipe="gnn", variants={"cpu": locked(cpu)}, data=(file,)))
    assert call("lock", "--check", "gnn").exit_code == 0
    recipe("gnn", data("v2", "2"))
    done = call("lock", "--check", "gnn")
    assert (done.exit_code, done.stdout) == (1, "gnn:cpu: stale: data d.csv\n")
    assert "data d.csv changed" in call("fetch", "--data", "gnn:cpu").exception.message


@pytest.mark.usefixtures("no_engine")
def test_what_another_process_locks_meanwhile_stays(call, recipe, monkeypatch):
    data = ", ".join(f"{{name: {name}, urls: ['https://data.test/{name}']}}" for name in ("a", "b"))
    recipe("gnn", f"{TWO}data: [{data}]\n")
    path = lock_path(target("gnn:cpu").path)
    meanwhile = PlainFile(name="a", urls=("https://data.test/a",), sha256="1" * 64, size=1)

    def resolve_slowly(engine: object, cpu: Target, *_: object) -> VariantLock:
        write(path, Lock(recipe="gnn", variants={"gpu": locked(target("gnn:gpu"))}, data=(meanwhile,)))
        return locked(cpu)

    monkeypatch.setattr(resolve, "lock_variant", resolve_slowly)
    assert call("lock", "gnn:cpu").exit_code == 0
    lock = read(path)
    assert list(lock.variants) == ["cpu", "gpu"] and lock.data == (meanwhile,)


@pytest.mark.usefixtures("no_engine")
def test_what_the_facts_forbid_is_locked_only_by_force(call, error, recipe, monkeypatch):
    recipe("gnn", "variants: {cpu: {base: 'debian:12', pins: {numpy: '2.4.6'}}}\n")
    wheel = {"name": "matplotlib", "version": "3.7.1", "file": "matplotlib-3.7.1-py3-none-any.whl", "size": 1}
    wheels = (Distribution(**wheel, sha256="1" * 64),)
    monkeypatch.setattr(
        resolve, "lock_variant", lambda engine, target, *_: locked(target).model_copy(update={"wheels": wheels})
    )
    clash = error(WorkFailed, "lock", "gnn")
    assert "compiled with NumPy 1 (matplotlib 3.7.1: locked by " in clash.message
    assert "lock anyway with --force" in clash.hint
    path = lock_path(target("gnn:cpu").path)
    assert not path.exists()
    assert call("lock", "gnn", "--force").exit_code == 0
    assert read(path).variants["cpu"].wheels == wheels
    assert "locked by" in call("check", "gnn").stdout and "cannot work" in call("build", "gnn").exception.message


def test_a_fetch_as_json(call, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    lock = a_lock("mine", [plain(b"stored", "a.bin")])
    path = write_recipe(tmp_path / "recipes", lock)
    mine = target(f"{path}:cpu")
    fresh = lock.variants["cpu"].model_copy(update={"inputs": sections(mine, render(mine), "x86_64")})
    write(lock_path(path), lock.model_copy(update={"variants": {"cpu": fresh}}))
    put(Store(), b"stored")
    done = call("fetch", str(path), "--json")
    assert done.exit_code == 0, done.exception
    downloaded = {"bytes": 0, "files": 0, "commits": 0}
    assert json.loads(done.stdout) == {"downloaded": downloaded, "stored": {"bytes": 6, "files": 1}}


@pytest.mark.usefixtures("no_engine")
def test_an_input_that_could_not_be_checked_is_exit_code_4(call, recipe, monkeypatch):
    newer = UpstreamChange("wheels", "six", "1.16.0", "1.17.0", "newer")
    unknown = UpstreamChange("git", "forge.test/team/tool", "a" * 40, "could not resolve host: forge.test", "unknown")
    monkeypatch.setattr(lock_read, "needed_lock", lambda target: None)
    recipe("gnn", CPU)

    def outcome(*moved: UpstreamChange):
        monkeypatch.setattr(outdated, "outdated", lambda *_: (list(moved), []))
        return call("lock", "--outdated", "gnn")

    done = outcome(newer, unknown)
    assert isinstance(done.exception, SourceError) and done.exception.exit_code == 4
    assert "could not be checked: could not resolve host" in done.stdout and "unchanged upstream" not in done.stdout
    assert outcome(newer).exit_code == 0
    assert outcome().stdout == "gnn:cpu: unchanged upstream\n"


def test_nothing_is_verified_without_a_lock_or_a_bundle(error, recipe):
    recipe("paper", CPU)
    unlocked = error(UsageError, "verify", "paper")
    assert "no lock" in unlocked.message and "reprokit lock paper:cpu" in unlocked.hint
    with (
        pytest.raises(UsageError, match="cannot read the bundle: No such file"),
        verify._image(Engine(None), target("paper"), "old.rkit"),
    ):
        pass


def test_what_differs_comes_first_and_control_characters_are_escaped(capsys):
    layer = ComparedLayer(2, "block git", 20, 5)
    for number in range(12):
        layer.add(FileChange(f"old{number}", "time", "time 1 -> 2"))
    layer.add(FileChange("\x1b[2Jx", "content", "byte 0: 00 -> 01", "a reason"))
    verify._print(Verification("reprokit/x:cpu", "", 5.0, [ComparedLayer(1, "base"), layer]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["layer 1: same  base", "layer 2: 1 differ, 12 other times of 20 files  block git"]
    assert lines[2].endswith("byte 0: 00 -> 01 (known: a reason)") and "\x1b" not in lines[2]
    assert lines[-2:] == ["  and 3 more", "reprokit/x:cpu differs from what its lock gives (rebuilt in 5 s)"]


def test_two_locks_compared(call, error, tmp_path):
    locks = [tmp_path / f"{name}.lock.yaml" for name in "ab"]
    commits = [Commit("https://git.test/a", text * 40) for text in "12"]
    for path, content, commit in zip(locks, (b"1", b"2"), commits, strict=True):
        write(path, a_lock(path.name[0], [plain(content), plain(b"same", "b.bin")], [commit]))
    assert call("diff", str(locks[0]), str(locks[0])).exit_code == 0
    done = call("diff", "--json", *map(str, locks))
    (found,) = json.loads(done.stdout)
    sums = [sha256(content).hexdigest()[:12] for content in (b"1", b"2")]
    assert found["changes"] == [["cpu: a.bin", *sums], ["cpu: https://git.test/a", "1" * 40, "2" * 40]]
    assert done.exit_code == 1 and "cpu: a.bin" in call("diff", *map(str, locks)).stdout
    assert "another lock" in error(UsageError, "diff", str(locks[0]), "b.rkit").message
