from __future__ import annotations

import random
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprokit.bundle.inputs_import import Imported
from reprokit.bundle.model import small_files
from reprokit.bundle.read import opened
from reprokit.errors import ReprokitError, UsageError
from reprokit.oci.layout import END, header, padding
from reprokit.oci.model import BLOBS, blob_path
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep.verify import verify
from tests.support.exporting import contents
from tests.support.made import tar
from tests.support.stores import CONTENTS, a_lock, export_inputs, import_from, plain, write_recipe

Bring = Callable[..., Imported]


def is_empty(store: Store) -> bool:
    """Whether nothing is published and no scratch is left."""
    return not [path for part in ("sha256", "git", "tmp") for path in (store.root / part).rglob("*") if path.is_file()]


def test_all_inputs_are_imported(bring: Bring, node: Store, commit: Commit):
    found = bring()
    assert (found.files, found.repositories, found.differing) == (4, 1, [])
    for content in (*CONTENTS, b"data"):
        assert node.path(plain(content).sha256).read_bytes() == content
    show = ["git", "-C", str(folder_of(commit, node)), "show", f"{commit.commit}:b"]
    assert subprocess.check_output(show) == b"2"
    assert verify(node).bad == () and not list((node.root / "tmp").iterdir())


def test_an_imported_repository_equals_a_fetched_one(bring: Bring, store: Store, node: Store, commit: Commit):
    bring()
    for name in ("HEAD", "shallow", "refs/heads/reprokit"):
        texts = [
            (folder_of(commit, each) / name).read_text().strip() for each in (store, node) if name != "packed-refs"
        ]
        assert texts[0] == texts[1]
    assert not (folder_of(commit, node) / "hooks").exists()


def test_present_inputs_are_not_imported_again(bring: Bring):
    bring()
    again = bring()
    assert (again.files, again.repositories) == (0, 0)


def test_recipes_are_put_into_a_folder_and_keep_their_files(bring: Bring, node: Store, recipe: Path, tmp_path: Path):
    there = tmp_path / "there" / "recipes"
    for _ in range(2):
        assert bring(recipes=there).differing == []
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in recipe.parent.iterdir()
    }
    assert node.used_locks() == [there / "x.lock.yaml"]


def test_another_recipe_of_the_same_name_is_not_overwritten(bring: Bring, node: Store, tmp_path: Path):
    other = write_recipe(tmp_path / "there", a_lock("x"))
    before = other.with_name("x.lock.yaml").read_bytes()
    with pytest.raises(UsageError) as error:
        bring(recipes=other.parent)
    assert error.value.where == str(other.with_name("x.lock.yaml"))
    assert other.with_name("x.lock.yaml").read_bytes() == before and is_empty(node)


def test_differing_and_missing_recipes_are_named(bring: Bring, recipe: Path):
    recipe.write_text(recipe.read_text() + "# mine\n")
    assert bring().differing == [f"{recipe} differs from the bundle's"]
    recipe.with_name("x.lock.yaml").unlink()
    assert bring().differing == [f"{recipe} differs from the bundle's", f"{recipe.with_name('x.lock.yaml')} is missing"]
    recipe.unlink()
    assert bring().differing == ["x is not a recipe here"]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.slow
def test_a_flipped_bit_is_refused_and_nothing_is_imported(seed: int, bring: Bring, archive: Path, node: Store):
    content = bytearray(archive.read_bytes())
    chosen = random.Random(seed)
    content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
    archive.write_bytes(content)
    with pytest.raises(UsageError):
        bring()
    assert is_empty(node)


def test_a_flipped_bit_of_each_input_names_it(bring: Bring, archive: Path, node: Store):
    content = archive.read_bytes()
    with tarfile.open(archive) as tar:
        blobs = [member for member in tar if member.name.startswith(BLOBS) and member.size]
    assert len(blobs) == 4
    for member in blobs:
        spoilt = bytearray(content)
        spoilt[member.offset_data + member.size // 2] ^= 1
        archive.write_bytes(spoilt)
        with pytest.raises(UsageError, match=f"^{member.name} is damaged"):
            bring()
    assert is_empty(node)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_bundle_is_refused(part: float, bring: Bring, archive: Path, node: Store):
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(UsageError, match=r"cut off|damaged|not a bundle") as error:
        bring()
    assert error.value.where == str(archive) and is_empty(node)


@pytest.mark.parametrize("missing", [1, 4, 5, 30])
def test_missing_last_bytes_are_refused(missing: int, bring: Bring, archive: Path, node: Store):
    archive.write_bytes(archive.read_bytes()[:-missing])
    with pytest.raises(UsageError, match="cut off"):
        bring()
    assert is_empty(node)


@pytest.mark.parametrize("more", [b"\0", b"more"])
def test_bytes_after_the_end_are_refused(more: bytes, bring: Bring, archive: Path, node: Store):
    archive.write_bytes(archive.read_bytes() + more)
    with pytest.raises(UsageError, match="followed by other data"):
        bring()
    assert is_empty(node)


@pytest.mark.parametrize("name", ["../../.bashrc", blob_path("0" * 64)])
def test_an_entry_that_the_metadata_does_not_name_is_refused(name: str, bring: Bring, archive: Path, node: Store):
    archive.write_bytes(archive.read_bytes()[: -len(END)] + header(name, 4) + b"evil" + padding(4) + END)
    with pytest.raises(UsageError, match=r"no such file can be in a bundle|is not named by anything"):
        bring()
    assert is_empty(node)


def test_a_link_in_the_place_of_an_input_is_refused(bring: Bring, archive: Path, node: Store):
    content = bytearray(archive.read_bytes())
    at = content.index(BLOBS.encode(), 1)
    content[at + 156 : at + 157] = b"2"
    archive.write_bytes(content)
    with pytest.raises(UsageError, match="damaged"):
        bring()
    assert is_empty(node)


def rewritten(archive: Path, **changes: object) -> None:
    """Change the metadata of a bundle, and drop the blobs that it no longer names."""
    with opened(archive) as bundle:
        assert bundle.metadata.inputs
        inputs = bundle.metadata.inputs.model_copy(update=changes)
        metadata = bundle.metadata.model_copy(update={"inputs": inputs})
    files = contents(archive)
    kept = {path: files[path] for path in map(blob_path, inputs.blobs)}
    archive.write_bytes(tar({**kept, **dict(small_files([], metadata.json_bytes()))}))


def test_a_bundle_that_lacks_an_input_is_refused(bring: Bring, archive: Path, node: Store):
    with opened(archive) as bundle:
        assert bundle.metadata.inputs
        files = bundle.metadata.inputs.files
    rewritten(archive, files=tuple(file for file in files if file.sha256 != plain(b"small").sha256))
    with pytest.raises(UsageError, match=r"the bundle lacks 1 inputs of x:cpu, for example f1\.bin"):
        bring()
    rewritten(archive, targets=("x:gpu",))
    with pytest.raises(UsageError, match="the bundle has no lock of x:gpu"):
        bring()
    rewritten(archive, bases=(f"sha256:{'1' * 64}",))
    with pytest.raises(UsageError, match=r"the base image reprokit/own/base:.* is missing"):
        bring()
    assert is_empty(node)


def test_a_commit_with_a_wrong_tree_is_refused(
    store: Store, recipes: Path, commit: Commit, node: Store, tmp_path: Path
):

    write_recipe(recipes, a_lock("x", [], [commit]))  # its tree is all zeros
    export_inputs(["x"], tmp_path / "x.rkit", store)
    with pytest.raises(UsageError, match=f"tool at {commit.commit[:12]}: its tree is"):
        import_from(tmp_path / "x.rkit", node)
    assert is_empty(node)


@pytest.mark.parametrize("content", [b"", b"no archive at all", bytes(5000)])
def test_other_files_are_refused(content: bytes, node: Store, tmp_path: Path):
    (tmp_path / "no").write_bytes(content)
    with pytest.raises(UsageError, match="not a bundle"):
        import_from(tmp_path / "no", node)
    with pytest.raises(UsageError, match="cannot read the bundle"):
        import_from(tmp_path / "gone", node)


def test_an_older_archive_is_refused_with_the_command_that_makes_a_new_one(node: Store, tmp_path: Path):
    (tmp_path / "old.tar.zst").write_bytes(zstandard.compress(tar({"manifest.json": b"{}"})))
    with pytest.raises(UsageError, match="an older `reprokit store export`") as error:
        import_from(tmp_path / "old.tar.zst", node)
    assert "reprokit store export NAME -o FILE.rkit" in error.value.hint


def test_too_little_space_is_reported_first(bring: Bring, node: Store, monkeypatch):
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(ReprokitError, match="not enough disk space: need 2 MB, 100 B free"):
        bring()
    assert is_empty(node)
