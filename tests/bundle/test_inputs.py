"""The inputs of recipes and their base images in a bundle: exported from one machine, imported into another."""

from __future__ import annotations

import random
import secrets
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from reprokit.bundle.inputs import Imported
from reprokit.bundle.load import check_names, checked, load_bases
from reprokit.bundle.model import small_files
from reprokit.bundle.read import opened
from reprokit.bundle.write import ExportJob, write
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, SourceError, UsageError
from reprokit.image import trust
from reprokit.image.base.resolve import carried_name, locked_base, on_engine
from reprokit.oci.layout import END, header, padding
from reprokit.oci.model import BLOBS, blob_path
from reprokit.oci.read import engine_image
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock.model import Base, Lock
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import verify
from tests.support.disk import Disk
from tests.support.exporting import contents
from tests.support.images import tar_of
from tests.support.made import Made, tar
from tests.support.registry import Registry
from tests.support.stores import (
    CONTENTS,
    a_lock,
    export_inputs,
    fetch,
    import_from,
    no_engine,
    overwrite,
    plain,
    put,
    with_trees,
    write_recipe,
)
from tests.support.verbs import run_verb

Bring = Callable[..., Imported]


@pytest.fixture
def recipe(store: Store, recipes: Path, commit: Commit) -> Path:
    """The recipe `x` with files, a commit and data, all of which are in the store."""
    for content in (*CONTENTS, b"data", b"unnamed"):
        put(store, content)
    files = [plain(content, f"f{number}.bin") for number, content in enumerate(CONTENTS)]
    return write_recipe(recipes, with_trees(a_lock("x", files, [commit], data=[plain(b"data", "d.bin")]), store))


@pytest.fixture
def archive(store: Store, recipe: Path, tmp_path: Path) -> Path:
    export_inputs(["x"], tmp_path / "x.rkit", store)
    return tmp_path / "x.rkit"


@pytest.fixture
def bring(archive: Path, node: Store) -> Bring:
    return lambda **options: import_from(archive, node, **options)


def names_in(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return [member.name for member in tar if member.isfile()]


def is_empty(store: Store) -> bool:
    """Whether nothing is published and no scratch is left."""
    return not [path for part in ("sha256", "git", "tmp") for path in (store.root / part).rglob("*") if path.is_file()]


def test_it_is_a_bundle_without_images(archive: Path, commit: Commit, store: Store, tmp_path: Path):
    files = sorted(blob_path(plain(content).sha256) for content in [*CONTENTS, b"data"])
    names = names_in(archive)
    assert names[:4] == files and names[5:] == ["oci-layout", "index.json", "reprokit.json", "manifest.json"]
    with opened(archive) as bundle:
        inputs = bundle.metadata.inputs
    assert inputs and inputs.targets == ("x:cpu",) and [text.name for text in inputs.recipes] == ["x"]
    (pack,) = inputs.packs
    assert (pack.url, pack.commit) == (commit.url, commit.commit) and names[4] == blob_path(pack.sha256)
    again = tmp_path / "again.rkit"
    export_inputs(["x:cpu", "x"], again, store)
    assert again.read_bytes() == archive.read_bytes()
    one = export_inputs(["x:cpu"], again, store)
    assert {file.sha256 for file in one.files} == {plain(content).sha256 for content in CONTENTS}, "no data"


def test_missing_inputs_are_named_and_missing_data_is_excluded(
    recipe: Path, store: Store, tmp_path: Path, reported: list[str]
):
    store.path(plain(b"data").sha256).unlink()
    export_inputs(["x"], tmp_path / "x.rkit", store)
    assert reported == ["d.bin is excluded: benchmark data that is not in the store"]
    (tmp_path / "x.rkit").unlink()
    store.path(plain(b"small").sha256).unlink()
    with pytest.raises(SourceError) as error:
        export_inputs(["x"], tmp_path / "x.rkit", store)
    assert "the store lacks 1 input of x: f1.bin" in error.value.message and "reprokit fetch x" in error.value.hint
    recipe.with_name("x.lock.yaml").unlink()
    with pytest.raises(UsageError, match="x has no lock"):
        export_inputs(["x"], tmp_path / "x.rkit", store)
    assert not list(tmp_path.glob("*x.rkit*"))


def test_a_damaged_input_is_named_and_the_old_bundle_stays(archive: Path, store: Store, commit: Commit):
    before = archive.read_bytes()
    file = store.path(plain(b"small").sha256)
    overwrite(file, 0, b"X")
    with pytest.raises(SourceError, match=f"{plain(b'small').sha256} is damaged in the store"):
        export_inputs(["x"], archive, store)
    overwrite(file, 0, b"s")
    pack = next((folder_of(commit, store) / "objects" / "pack").glob("*.pack"))
    overwrite(pack, pack.stat().st_size // 2, b"\0\0\0\0")
    with pytest.raises(SourceError, match="is damaged in the store") as error:
        export_inputs(["x"], archive, store)
    assert error.value.where == commit.url
    assert archive.read_bytes() == before
    assert [path.name for path in archive.parent.glob("*.rkit*")] == [archive.name]


def test_too_little_space_is_reported_first(bring: Bring, archive: Path, store: Store, node: Store, monkeypatch):
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(EngineError, match="not enough disk space: need 2 MB, 100 B free"):
        export_inputs(["x"], archive, store)
    with pytest.raises(ReprokitError, match="not enough disk space: need 2 MB, 100 B free"):
        bring()
    assert is_empty(node)


def test_two_exports_to_one_file_wait_for_each_other(recipe: Path, store: Store, tmp_path: Path, reported: list[str]):
    target = tmp_path / "x.rkit"
    second = threading.Thread(target=lambda: export_inputs(["x"], target, store))

    def meanwhile(done: int, total: int) -> None:
        if not second.ident:
            second.start()
            while not reported:
                second.join(0.01)

    export_inputs(["x"], target, store, progress=meanwhile)
    second.join()
    assert reported == ["another export writes this file; waiting for it to end"]
    assert len(names_in(target)) == 9 and not list(tmp_path.glob(".x.rkit*"))


def test_a_complete_history_is_included(store: Store, recipes: Path, repositories, tmp_path: Path):
    repositories.make("team/tool", {"a": "1"})
    repositories.git("team/tool", "config", "uploadpack.allowAnySHA1InWant", "false")
    commit = fetch(store, "team/tool", repositories.commit("team/tool", {"a": "2"}))
    command = ["git", "-C", str(folder_of(commit, store)), "fetch", "-q", "--unshallow"]
    subprocess.run([*command, str(repositories.root / "team/tool.git")], check=True)
    write_recipe(recipes, a_lock("x", [], [commit]))
    (repository,) = export_inputs(["x"], tmp_path / "x.rkit", store).packs
    assert repository.shallow == ()


def test_all_inputs_are_imported(bring: Bring, store: Store, node: Store, commit: Commit, recipe: Path, tmp_path: Path):
    imported = bring()
    assert (imported.files, imported.repositories, imported.differing) == (4, 1, [])
    for content in (*CONTENTS, b"data"):
        assert node.path(plain(content).sha256).read_bytes() == content
    mine, theirs = folder_of(commit, store), folder_of(commit, node)
    assert subprocess.check_output(["git", "-C", str(theirs), "show", f"{commit.commit}:b"]) == b"2"
    for name in ("HEAD", "shallow", "refs/heads/reprokit"):
        assert (mine / name).read_text().strip() == (theirs / name).read_text().strip()
    assert not (theirs / "hooks").exists()
    assert verify(node).bad == () and not list((node.root / "tmp").iterdir())
    there = tmp_path / "there" / "recipes"
    for _ in range(2):
        again = bring(recipes=there)
        assert (again.files, again.repositories, again.differing) == (0, 0, [])
    before = {path.name: path.read_bytes() for path in recipe.parent.iterdir()}
    assert {path.name: path.read_bytes() for path in there.iterdir()} == before
    assert {*node.used_locks()} == {recipe.with_name("x.lock.yaml"), there / "x.lock.yaml"}


def test_another_recipe_of_the_same_name_is_not_overwritten(bring: Bring, recipe: Path, node: Store, tmp_path: Path):
    other = write_recipe(tmp_path / "there", a_lock("x")).with_name("x.lock.yaml")
    before = other.read_bytes()
    with pytest.raises(UsageError) as error:
        bring(recipes=other.parent)
    assert error.value.where == str(other) and other.read_bytes() == before and is_empty(node)
    recipe.write_text(recipe.read_text() + "# mine\n")
    assert bring().differing == [f"{recipe} differs from the bundle's"]
    recipe.with_name("x.lock.yaml").unlink()
    assert bring().differing == [f"{recipe} differs from the bundle's", f"{recipe.with_name('x.lock.yaml')} is missing"]
    recipe.unlink()
    assert bring().differing == ["x is not a recipe here"]


@pytest.mark.slow
def test_a_damaged_bundle_is_refused_and_nothing_is_imported(bring: Bring, archive: Path, node: Store):
    content = archive.read_bytes()
    with tarfile.open(archive) as tar:
        blobs = [member for member in tar if member.name.startswith(BLOBS) and member.size]

    def refused(changed: bytes, message: str = ".") -> None:
        archive.write_bytes(changed)
        with pytest.raises(UsageError, match=message) as error:
            bring()
        assert error.value.where == str(archive) and is_empty(node)

    def flipped(at: int, mask: int = 1) -> bytes:
        return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]

    chosen = random.Random(0)
    for _ in range(30):
        refused(flipped(chosen.randrange(len(content)), 1 << chosen.randrange(8)))
    assert len(blobs) == 4
    for member in blobs:
        refused(flipped(member.offset_data + member.size // 2), f"^{member.name} is damaged")
    for part in (0.0, 0.01, 0.3, 0.6, 0.9, 0.99):
        refused(content[: int(len(content) * part)], r"cut off|damaged|not a bundle")
    for missing in (1, 4, 5, 30):
        refused(content[:-missing], "cut off")
    for more in (b"\0", b"more"):
        refused(content + more, "followed by other data")
    for name in ("../../.bashrc", blob_path("0" * 64)):
        entry = header(name, 4) + b"evil" + padding(4)
        refused(content[: -len(END)] + entry + END, r"no such file can be in a bundle|is not named by anything")
    link = content.index(BLOBS.encode(), 1) + 156
    refused(content[:link] + b"2" + content[link + 1 :], "damaged")


def test_other_files_are_refused(node: Store, tmp_path: Path):
    for content in (b"", b"no archive at all", bytes(5000)):
        (tmp_path / "no").write_bytes(content)
        with pytest.raises(UsageError, match="not a bundle"):
            import_from(tmp_path / "no", node)
    with pytest.raises(UsageError, match="cannot read the bundle"):
        import_from(tmp_path / "gone", node)


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


def test_a_commit_with_a_wrong_tree_is_refused(store: Store, recipes: Path, commit: Commit, node: Store, tmp_path):
    write_recipe(recipes, a_lock("x", [], [commit]))  # its tree is all zeros
    export_inputs(["x"], tmp_path / "x.rkit", store)
    with pytest.raises(UsageError, match=f"tool at {commit.commit[:12]}: its tree is"):
        import_from(tmp_path / "x.rkit", node)
    assert is_empty(node)


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_import_can_be_repeated(archive: Path, disk: Disk):
    """The disk becomes full despite the check of free bytes: it has too few inodes."""
    home = disk.folder / "home"
    failures = 0
    for inodes in range(4, 100, 8):
        disk.limit(f"nr_inodes={inodes}")
        done = run_verb("store", "import", archive, env={"REPROKIT_HOME": str(home)})
        assert not list((home / "store" / "tmp").glob("*")), "scratch is left"
        if done.returncode == 0:
            break
        assert done.returncode == 3 and done.stderr.startswith("error: the disk is full"), done.stderr
        assert "hint: free space" in done.stderr
        failures += 1
    # In the folders of the store, in the files of the bundle, and in the repository that git makes.
    assert failures > 4 and done.returncode == 0
    assert verify(Store(home / "store")).bad == ()


DIGEST = f"sha256:{'1' * 64}"


@pytest.fixture(scope="module")
def base(engine: Engine) -> Iterator[Base]:
    """A base in a registry; the engine's copies of it go in the end."""
    with Registry(engine, "store-base", tar_of({"etc/reprokit-store": uuid.uuid4().bytes})) as registry:
        base = Base(reference=f"{registry.host}/store-base:1", digest=registry.digest)
        yield base
        forget(engine, base)


@pytest.fixture
def lock(base: Base, recipes: Path) -> Lock:
    lock = a_lock("x")
    lock = lock.model_copy(update={"variants": {"cpu": lock.variants["cpu"].model_copy(update={"base": base})}})
    write_recipe(recipes, lock)
    return lock


def forget(engine: Engine, base: Base) -> None:
    reference = f"{base.reference.rpartition(':')[0]}@{base.digest}"
    for name in (carried_name(base.digest or ""), reference):
        with suppress(EngineError):
            engine.remove_image(name, force=True)
    assert on_engine(engine, reference) is None


def imported(path: Path, connect: Callable[[], Engine]) -> int:
    """The number of base images that `reprokit store import` loads."""
    with ExitStack() as stack:
        (file,) = checked([path], stack)
        return load_bases(file, connect)


def with_base(path: Path, digest: str, content: bytes) -> Path:
    """A bundle that claims its image to be the base of this digest."""
    made = Made.of({carried_name(digest): [tar_of({"a": content})]})
    made.metadata["inputs"] = {"targets": [], "recipes": [], "files": [], "packs": [], "bases": [digest]}
    return made.write(path)


def test_a_base_is_used_without_a_registry(
    engine: Engine, base: Base, lock: Lock, store, node, tmp_path, images, reported: list[str]
):
    other, path = images.base("beside", {"a": b"1"}), tmp_path / "x.rkit"
    write(ExportJob(engine, [engine_image(engine, other)], path, inputs=("x",), store=store))
    before = engine.image(carried_name(base.digest or ""))
    assert before and engine.image(base.reference) is None
    engine.remove_image(other)
    forget(engine, base)
    with pytest.raises(SourceError, match="does not have the base image"):
        locked_base(engine, base, node, offline=True)
    reported.clear()
    assert imported(path, no_engine) == 0  # type: ignore[arg-type]
    assert reported == ["1 base images are not loaded: no engine answers; repeat the import where an engine runs"]
    assert imported(path, lambda: engine) == 1
    assert engine.image(other) is None, "only bases are loaded"
    local = locked_base(engine, base, node, offline=True)
    after = engine.image(local.name)
    assert after and after.layers == before.layers and local.digest == base.digest
    assert imported(path, lambda: engine) == 0

    # An imported base is trusted, and can be exported again.
    export_inputs(["x"], tmp_path / "again.rkit", node, engine)
    assert engine.image(local.name)


def test_a_strangers_image_of_the_name_is_not_exported(engine: Engine, base: Base, lock: Lock, store, tmp_path, images):
    name = carried_name(base.digest or "")
    expected = locked_base(engine, base, store).image_id
    engine.tag(expected, "reprokit-test-base", "1")
    engine.tag(images.base("evil", {"evil": b"1"}), *name.split(":"))
    try:
        export_inputs(["x"], tmp_path / "x.rkit", store, engine)
        with opened(tmp_path / "x.rkit") as bundle:
            assert [image.id for image in bundle.images if image.name == name] == [expected]
    finally:
        engine.remove_image("reprokit-test-base:1")


def test_a_base_that_builds_use_is_kept(engine: Engine, tmp_path: Path, reported: list[str]):
    digest = f"sha256:{secrets.token_hex(32)}"
    name = carried_name(digest)
    mine = with_base(tmp_path / "mine.rkit", digest, secrets.token_bytes(8))
    others = with_base(tmp_path / "others.rkit", digest, secrets.token_bytes(8))
    try:
        assert imported(mine, lambda: engine) == 1
        before = on_engine(engine, f"debian:12@{digest}")
        reported.clear()
        assert before and imported(others, lambda: engine) == 0
        assert on_engine(engine, f"debian:12@{digest}") == before
        assert len(reported) == 1 and f"{name} is another image here and is kept" in reported[0]
        # A base that no build would use is replaced.
        trust.revoke(engine, [before.image_id])
        assert on_engine(engine, f"debian:12@{digest}") is None
        assert imported(others, lambda: engine) == 1
        after = on_engine(engine, f"debian:12@{digest}")
        assert after and after.image_id != before.image_id
        assert reported[1:] == [f"{name} moved; it pointed to {before.image_id}"]
    finally:
        engine.remove_image(name)


def test_bases_need_the_users_trust(tmp_path: Path):
    with opened(with_base(tmp_path / "x.rkit", DIGEST, b"1")) as bundle:
        with pytest.raises(UsageError, match="has 1 base image of its inputs, which builds start from") as error:
            check_names(bundle, False)
        check_names(bundle, True)
    assert "--trust" in error.value.hint


def test_only_bases_of_the_inputs_may_have_reserved_names(tmp_path: Path):
    path = Made.of({carried_name(DIGEST): [tar_of({"a": b"1"})]}).write(tmp_path / "x.rkit")
    with opened(path) as bundle, pytest.raises(UsageError, match="a reserved name"):
        check_names(bundle, True)
