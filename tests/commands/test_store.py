from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.errors import SourceError, UsageError, WorkFailed
from reprokit.image.base.resolve import carried_name
from reprokit.supply.store import Store
from tests.support.images import tar_of
from tests.support.made import Made, sha256
from tests.support.stores import a_lock, overwrite, plain, put, write_recipe


@pytest.fixture
def store(call, tmp_path: Path) -> Store:
    """The user's store, with a file that the lock of `mine` names and one that none does; `mine` names one more."""
    write_recipe(tmp_path / "recipes", a_lock("mine", [plain(b"named", "a.bin"), plain(b"missing", "b.bin")]))
    put(Store(), b"named")
    put(Store(), b"other")
    return Store()


def test_ls_names_what_locks_name_and_what_is_missing(call, error, store, recipe):
    _, *lines = [line.split() for line in call("store", "ls").stdout.splitlines()]
    assert lines[0] == ["files", "a.bin", "5", "B", plain(b"named").sha256[:12], "mine:cpu"]
    assert lines[1] == ["unnamed", "5", "B", plain(b"other").sha256[:12], "no", "lock"]
    result = call("store", "ls", "mine")
    assert [line.split()[1:3] for line in result.stdout.splitlines()[1:]] == [["a.bin", "5"], ["b.bin", "missing"]]
    assert "files: 1, 5 B" in result.stderr and "missing: 1; `reprokit fetch`" in result.stderr
    rows = json.loads(call("store", "ls", "mine:cpu", "--json").stdout)
    assert [(row["name"], row["here"]) for row in rows] == [("a.bin", True), ("b.bin", False)]
    recipe("bare", "variants: {a: {base: debian:12}}")
    assert "reprokit lock bare" in error(UsageError, "store", "ls", "bare").hint


def test_verify_names_what_is_bad_and_repair_removes_it(call, store):
    assert call("store", "verify").stdout == "2 files and 0 repositories, 10 B: all good\n"
    bad = store.path(plain(b"named").sha256)
    overwrite(bad, 0, b"X")
    result = call("store", "verify")
    assert result.exit_code == 1 and f"bad: {bad.name}: its 5 bytes hash to" in result.stdout and bad.exists()
    result = call("store", "verify", "--repair", "--json")
    assert result.exit_code == 1 and [b["what"] for b in json.loads(result.stdout)["bad"]] == [bad.name]
    assert not bad.exists() and call("store", "verify").exit_code == 0


def test_gc_keeps_what_is_named_or_young(call, store):
    other = store.path(plain(b"other").sha256)
    assert call("store", "gc").stdout == "freed: 0, 0 B\n" and other.exists()
    result = call("store", "gc", "--all", "--dry-run")
    assert result.stdout.splitlines() == [f"     5 B  {other.name}", "would be freed: 1, 5 B"] and other.exists()
    freed = json.loads(call("store", "gc", "--all", "--json").stdout)
    assert freed == {"freed": True, "bytes": 5, "goes": [{"path": str(other), "bytes": 5}]}
    assert not other.exists() and store.path(plain(b"named").sha256).exists()


def test_export_and_import_copy_everything_to_another_node(call, error, store, tmp_path, monkeypatch):
    refused = error(SourceError, "store", "export", "mine", "-o", "mine.rkit")
    assert "b.bin" in refused.message  # it is not fetched
    put(store, b"missing")
    result = call("store", "export", "mine", "-o", "mine.rkit")
    assert result.exit_code == 0 and result.stdout.startswith("mine.rkit: mine:cpu: 4 entries, ")
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "node"))
    (tmp_path / "node").mkdir()
    monkeypatch.chdir(tmp_path / "node")
    result = call("store", "import", "../mine.rkit")
    hint = "hint: --recipes DIR puts the bundle's recipes and locks into a folder\n"
    assert (result.exit_code, result.stderr) == (0, f"mine is not a recipe here\n{hint}")
    assert result.stdout == "mine:cpu: 2 new files, 0 new repositories, 0 new base images\n"
    call("store", "import", "../mine.rkit", "--recipes", "recipes")
    assert call("store", "ls", "mine").stderr == "files: 2, 12 B\n"
    assert call("store", "gc", "--all").stdout == "freed: 0, 0 B\n"


def test_import_of_base_images_needs_trust(error, store, tmp_path):
    digest = f"sha256:{'1' * 64}"
    made = Made.of({carried_name(digest): [tar_of({"a": b"1"})]})
    bundled = {"sha256": sha256(b"new"), "size": 3}
    made.metadata["inputs"] = {"targets": [], "recipes": [], "files": [bundled], "packs": [], "bases": [digest]}
    made.blobs[f"blobs/sha256/{sha256(b'new')}"] = b"new"
    made.write(tmp_path / "x.rkit")
    untrusted = error(UsageError, "store", "import", "x.rkit")
    assert "1 base image of its inputs" in untrusted.message
    assert untrusted.hint == "nothing was changed; --trust allows it"
    error(WorkFailed, "store", "import", "x.rkit", "--signed-by", "lab.pub")
    assert not store.path(sha256(b"new")).exists()
