from __future__ import annotations

import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from reprokit.bundle.read import opened
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.oci.model import blob_path
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from tests.support.stores import CONTENTS, a_lock, export_inputs, fetch, overwrite, plain, put, write_recipe


def names_in(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return [member.name for member in tar if member.isfile()]


def test_it_is_a_bundle_without_images(archive: Path, commit: Commit):
    files = sorted(blob_path(plain(content).sha256) for content in [*CONTENTS, b"data"])
    names = names_in(archive)
    assert names[:4] == files and names[5:] == ["oci-layout", "index.json", "reprokit.json", "manifest.json"]
    with opened(archive) as bundle:
        inputs = bundle.metadata.inputs
    assert inputs and inputs.targets == ("x:cpu",) and [text.name for text in inputs.recipes] == ["x"]
    (pack,) = inputs.packs
    assert (pack.url, pack.commit) == (commit.url, commit.commit) and names[4] == blob_path(pack.sha256)


def test_the_same_inputs_give_the_same_bytes(archive: Path, store: Store, tmp_path: Path):
    again = tmp_path / "again.rkit"
    export_inputs(["x:cpu", "x"], again, store)
    assert again.read_bytes() == archive.read_bytes()


def test_a_single_variant_has_no_data(recipe: Path, store: Store, tmp_path: Path):
    manifest = export_inputs(["x:cpu"], tmp_path / "x.rkit", store)
    assert plain(b"data").sha256 not in {file.sha256 for file in manifest.files}


def test_missing_data_is_excluded_and_reported(recipe: Path, store: Store, tmp_path: Path):
    store.path(plain(b"data").sha256).unlink()
    said: list[str] = []
    export_inputs(["x"], tmp_path / "x.rkit", store, notify=said.append)
    assert said == ["d.bin is excluded: benchmark data that is not in the store"]


def test_a_missing_input_is_named(recipe: Path, store: Store, tmp_path: Path):
    store.path(plain(b"small").sha256).unlink()
    with pytest.raises(SourceError) as error:
        export_inputs(["x"], tmp_path / "x.rkit", store)
    assert "the store lacks 1 input of x: f1.bin" in error.value.message and "reprokit fetch x" in error.value.hint
    assert not list(tmp_path.glob("*x.rkit*"))


def test_a_recipe_without_lock(recipes: Path, store: Store, tmp_path: Path):
    recipe = write_recipe(recipes, a_lock("x"))
    recipe.with_name("x.lock.yaml").unlink()
    with pytest.raises(UsageError, match="x has no lock"):
        export_inputs(["x"], tmp_path / "x.rkit", store)


def test_a_damaged_file_is_named_and_the_old_bundle_stays(archive: Path, store: Store):
    before = archive.read_bytes()
    overwrite(store.path(plain(b"small").sha256), 0, b"X")
    with pytest.raises(SourceError, match=f"{plain(b'small').sha256} is damaged in the store"):
        export_inputs(["x"], archive, store)
    assert archive.read_bytes() == before
    assert [path.name for path in archive.parent.glob("*.rkit*")] == [archive.name]


def test_a_damaged_repository_is_named(recipe: Path, store: Store, commit: Commit, tmp_path: Path):
    pack = next((folder_of(commit, store) / "objects" / "pack").glob("*.pack"))
    overwrite(pack, pack.stat().st_size // 2, b"\0\0\0\0")
    with pytest.raises(SourceError, match="is damaged in the store") as error:
        export_inputs(["x"], tmp_path / "x.rkit", store)
    assert error.value.where == commit.url


def test_too_little_space_is_reported_first(recipe: Path, store: Store, tmp_path: Path, monkeypatch):
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(EngineError, match="not enough disk space: need 2 MB, 100 B free"):
        export_inputs(["x"], tmp_path / "x.rkit", store)


def test_a_folder_that_cannot_be_written(recipe: Path, store: Store, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        export_inputs(["x"], tmp_path / "file" / "x.rkit", store)


def test_two_exports_to_one_file_wait_for_each_other(recipe: Path, store: Store, tmp_path: Path):
    target = tmp_path / "x.rkit"
    said: list[str] = []
    second = threading.Thread(target=lambda: export_inputs(["x"], target, store, notify=said.append))

    def meanwhile(done: int, total: int) -> None:
        if not second.ident:
            second.start()
            while not said:
                second.join(0.01)

    export_inputs(["x"], target, store, progress=meanwhile)
    second.join()
    assert said == ["another export writes this file; waiting for it to end"]
    assert len(names_in(target)) == 9 and not list(tmp_path.glob(".x.rkit*"))


def test_a_complete_history_is_included(store: Store, recipes: Path, repositories, tmp_path: Path):
    repositories.make("team/tool", {"a": "1"})
    repositories.git("team/tool", "config", "uploadpack.allowAnySHA1InWant", "false")
    commit = fetch(store, "team/tool", repositories.commit("team/tool", {"a": "2"}))
    folder = folder_of(commit, store)
    subprocess.run(
        ["git", "-C", str(folder), "fetch", "-q", "--unshallow", str(repositories.root / "team/tool.git")], check=True
    )
    write_recipe(recipes, a_lock("x", [], [commit]))
    (repository,) = export_inputs(["x"], tmp_path / "x.rkit", store).packs
    assert repository.shallow == ()


def test_inputs_that_the_lock_does_not_name_are_excluded(recipe: Path, store: Store, tmp_path: Path):
    put(store, b"unnamed")
    manifest = export_inputs(["x"], tmp_path / "x.rkit", store)
    assert plain(b"unnamed").sha256 not in {file.sha256 for file in manifest.files}
