from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from reprokit.errors import ReprokitError, UsageError
from reprokit.supply.kinds.git.store import Commit, folder_of
from reprokit.supply.store import Store
from reprokit.supply.transfer.importing import Imported, take_in
from reprokit.supply.transfer.manifest import Manifest, header, padding
from reprokit.supply.transfer.stream import Reader
from reprokit.supply.upkeep.verify import verify
from tests.support.stores import CONTENTS, a_lock, no_engine, plain, write_recipe

Bring = Callable[..., Imported]


def is_empty(store: Store) -> bool:
    """Whether nothing is published and no scratch is left."""
    return not [path for part in ("sha256", "git", "tmp") for path in (store.root / part).rglob("*") if path.is_file()]


def plain_bytes(archive: Path) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(archive.open("rb")).read()


def pack(path: Path, content: bytes) -> Path:
    path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(content))
    return path


def test_everything_is_there_afterwards(bring: Bring, node: Store, commit: Commit):
    found = bring()
    assert (found.files, found.repositories, found.images, found.strange) == (4, 1, 0, [])
    for content in (*CONTENTS, b"data"):
        assert node.path(plain(content).sha256).read_bytes() == content
    show = ["git", "-C", str(folder_of(commit, node)), "show", f"{commit.commit}:b"]
    assert subprocess.check_output(show) == b"2"
    assert verify(node).bad == () and not list((node.root / "tmp").iterdir())


def test_an_imported_repository_is_as_a_fetched_one(bring: Bring, store: Store, node: Store, commit: Commit):
    bring()
    for name in ("HEAD", "shallow", "refs/heads/reprokit"):
        texts = [
            (folder_of(commit, each) / name).read_text().strip() for each in (store, node) if name != "packed-refs"
        ]
        assert texts[0] == texts[1]
    assert not (folder_of(commit, node) / "hooks").exists()


def test_what_is_there_is_not_brought_again(bring: Bring):
    bring()
    again = bring()
    assert (again.files, again.repositories) == (0, 0)


def test_recipes_are_put_into_a_folder_and_keep_their_files(bring: Bring, node: Store, recipe: Path, tmp_path: Path):
    there = tmp_path / "there" / "recipes"
    for _ in range(2):
        assert bring(recipes=there).strange == []
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in recipe.parent.iterdir()
    }
    assert node.used_locks() == [there / "x.lock.yaml"]


def test_another_recipe_of_the_name_is_not_written_over(bring: Bring, node: Store, tmp_path: Path):
    other = write_recipe(tmp_path / "there", a_lock("x"))
    before = other.with_name("x.lock.yaml").read_bytes()
    with pytest.raises(UsageError) as error:
        bring(recipes=other.parent)
    assert error.value.where == str(other.with_name("x.lock.yaml"))
    assert other.with_name("x.lock.yaml").read_bytes() == before and is_empty(node)


def test_recipes_here_that_differ_or_lack_are_named(bring: Bring, recipe: Path):
    recipe.write_text(recipe.read_text() + "# mine\n")
    assert bring().strange == [f"{recipe} differs from the archive's"]
    recipe.with_name("x.lock.yaml").unlink()
    assert bring().strange == [f"{recipe} differs from the archive's", f"{recipe.with_name('x.lock.yaml')} is missing"]
    recipe.unlink()
    assert bring().strange == ["x is no recipe here"]


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_anywhere_is_refused_and_nothing_is_taken(seed: int, bring: Bring, archive: Path, node: Store):
    before = plain_bytes(archive)
    content = bytearray(archive.read_bytes())
    chosen = random.Random(seed)
    content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
    archive.write_bytes(content)
    try:
        bring()
    except UsageError:
        assert is_empty(node)
    else:  # zstd has bits without a meaning, such as the size of a window that is large enough
        assert plain_bytes(archive) == before


def test_a_flipped_bit_of_each_entry_names_it(archive: Path, node: Store, tmp_path: Path):
    content = plain_bytes(archive)
    with archive.open("rb") as file:
        manifest = Reader(file, "", lambda done, total: None).manifest()
    at = _length(len(manifest.model_dump_json()), "manifest.json")
    for entry in manifest.entries:
        start = at + len(header(entry.path, entry.size))
        at += _length(entry.size, entry.path)
        if entry.size:
            spoilt = bytearray(content)
            spoilt[start + entry.size // 2] ^= 1
            with pytest.raises(UsageError, match=f"^{entry.path}: its sha256 is"):
                take_in(pack(tmp_path / "spoilt", bytes(spoilt)), node, no_engine)
    assert at + 1024 == len(content) and is_empty(node)


def _length(size: int, path: str) -> int:
    return len(header(path, size)) + size + len(padding(size))


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_archive_is_refused(part: float, bring: Bring, archive: Path, node: Store):
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(UsageError, match=r"the archive is cut off there|damaged") as error:
        bring()
    assert error.value.where == str(archive) and is_empty(node)


@pytest.mark.parametrize("left_out", [1, 4, 5, 30])
def test_the_last_bytes_are_missed_too(left_out: int, bring: Bring, archive: Path, node: Store):
    archive.write_bytes(archive.read_bytes()[:-left_out])
    with pytest.raises(UsageError, match="the archive is cut off there"):
        bring()
    assert is_empty(node)


@pytest.mark.parametrize("more", [b"\0", b"more"])
def test_bytes_after_the_end_are_refused(more: bytes, bring: Bring, archive: Path, node: Store):
    archive.write_bytes(archive.read_bytes() + more)
    with pytest.raises(UsageError, match="more stands in it"):
        bring()
    assert is_empty(node)


def test_an_entry_that_the_manifest_does_not_name_is_refused(archive: Path, node: Store, tmp_path: Path):
    content = plain_bytes(archive)[:-1024]
    sneaked = header("../../.bashrc", 4) + b"evil" + padding(4)
    with pytest.raises(UsageError, match="the end: more stands in it"):
        take_in(pack(tmp_path / "more", content + sneaked + bytes(1024)), node, no_engine)
    assert is_empty(node)


def test_a_link_in_the_place_of_an_entry_is_refused(archive: Path, node: Store, tmp_path: Path):
    content = bytearray(plain_bytes(archive))
    at = content.index(b"recipes/x.yaml\0")
    content[at + 156 : at + 157] = b"2"
    with pytest.raises(UsageError, match=r"^recipes/x.yaml: another entry stands where"):
        take_in(pack(tmp_path / "link", bytes(content)), node, no_engine)
    assert is_empty(node)


def rewritten(archive: Path, target: Path, **changes: object) -> Path:
    """The archive with another manifest, and its entries as they were."""
    with archive.open("rb") as file:
        manifest = Reader(file, "", lambda done, total: None).manifest()
    rest = plain_bytes(archive)[_length(len(manifest.model_dump_json()), "manifest.json") :]
    text = manifest.model_copy(update=changes).model_dump_json().encode()
    return pack(target, header("manifest.json", len(text)) + text + padding(len(text)) + rest)


def test_an_archive_that_lacks_an_input_is_refused(archive: Path, node: Store, tmp_path: Path):
    with archive.open("rb") as file:
        manifest: Manifest = Reader(file, "", lambda done, total: None).manifest()
    without = tuple(file for file in manifest.files if file.sha256 != plain(b"small").sha256)
    with pytest.raises(UsageError, match=r"the archive lacks 1 inputs of x:cpu, f1\.bin for one"):
        take_in(rewritten(archive, tmp_path / "less", files=without), node, no_engine)
    with pytest.raises(UsageError, match="the archive has no lock of x:gpu"):
        take_in(rewritten(archive, tmp_path / "less", targets=("x:gpu",)), node, no_engine)
    assert is_empty(node)


def test_a_commit_under_a_wrong_tree_is_refused(
    store: Store, recipes: Path, commit: Commit, node: Store, tmp_path: Path
):
    from reprokit.supply.transfer.exporting import export

    write_recipe(recipes, a_lock("x", [], [commit]))  # its tree is all zeros
    export(["x"], tmp_path / "x.tar.zst", store, no_engine)
    with pytest.raises(UsageError, match=f"git/forge.test/team/tool/{commit.commit}.pack: it has the tree"):
        take_in(tmp_path / "x.tar.zst", node, no_engine)
    assert is_empty(node)


@pytest.mark.parametrize("content", [b"", b"no archive at all", bytes(5000)])
def test_what_is_no_archive(content: bytes, node: Store, tmp_path: Path):
    (tmp_path / "no").write_bytes(content)
    for path in (tmp_path / "no", pack(tmp_path / "packed", content)):
        with pytest.raises(UsageError, match=r"^manifest.json: "):
            take_in(path, node, no_engine)
    with pytest.raises(UsageError, match="cannot be read"):
        take_in(tmp_path / "gone", node, no_engine)


def test_too_little_space_is_said_before_anything_is_written(bring: Bring, node: Store, monkeypatch):
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(ReprokitError, match="not enough disk space: need 2 MB, 100 B free"):
        bring()
    assert is_empty(node)
