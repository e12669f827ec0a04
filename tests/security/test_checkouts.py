"""A stranger's checkout: recipes, locks, records and modules in it that are planted, endless or too deep."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from reprokit import paths
from reprokit.bench import extension, printed
from reprokit.bundle import inputs
from reprokit.bundle.workspaces import add_workspace
from reprokit.bundle.write import describe
from reprokit.engine import LABEL
from reprokit.errors import UsageError
from reprokit.host.command import own_module
from reprokit.host.workspace import copy, keep_up, renew, unused_copies
from reprokit.image.lock.resolve import lock_variant, update_of
from reprokit.importing.tree import FolderTree
from reprokit.nodes import remote
from reprokit.oci.model import Image
from reprokit.recipe.find import Target, target
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Lock
from reprokit.sweep import slurm_array
from reprokit.sweep.bench_process import bench_command
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import DEPTH
from tests.support import locks_beside
from tests.support.fetching import local_mirrors
from tests.support.strangers import User
from tests.support.sweeps import JOB

RECIPE = """\
name: paper
paper: {title: T, venue: V, year: 2020, licence: MIT}
variants: {cpu: {base: "debian:12"}}
"""
PLANTED = {"pipe": "this is not a regular file with a single name", "endless": "a link is in the way"}


def plant(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")


@pytest.fixture
def recipe(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the recipe `paper` in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "paper.yaml").write_text(RECIPE)
    return tmp_path / "recipes" / "paper.yaml"


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("name", ["paper.yaml", "paper.lock.yaml"])
def test_what_never_ends_is_not_waited_for(recipe: Path, kind: str, name: str):
    def read() -> Lock:
        return lock_file.read(lock_path(target("paper").path))

    write(lock_path(recipe), Lock(recipe="paper", variants={}))
    assert read().recipe == "paper"  # the control
    plant(kind, recipe.parent / name)
    with pytest.raises(UsageError, match=PLANTED[kind]) as error:
        read()
    assert error.value.where == str(recipe.parent / name)


@pytest.mark.parametrize(
    ("planted", "listed", "stored"),
    [("recipes/paper.yaml", 2, 0), ("recipes/paper.lock.yaml", 0, 2), ("recipes/paper", 2, 0)],
)
def test_recipes_and_locks_are_read_through_no_link(user: User, tmp_path, planted: str, listed: int, stored: int):
    """An error about a file that is no recipe names its first field, which may be a secret."""
    for folder in (user.here / "recipes", tmp_path / "outside"):
        folder.mkdir()
    (tmp_path / "outside" / "paper.yaml").write_text("root:$6$secret:19000: 0\n")
    link = user.here / planted
    if planted == "recipes/paper.lock.yaml":
        (user.here / "recipes" / "paper.yaml").write_text(RECIPE)
    link.symlink_to(tmp_path / "outside" / ("paper.yaml" if link.suffix else ""))
    for words, code in ((("list",), listed), (("lock", "--check", "paper"), 2), (("store", "ls"), stored)):
        text = user(*words, code=code)
        assert "secret" not in text and ("a link is in the way" in text) == (code == 2)
    link.unlink()  # the control: the folder of recipes itself is the user's to link
    (user.here / "recipes" / "paper.yaml").write_text(RECIPE)
    (user.here / "recipes").rename(user.here / "elsewhere")
    (user.here / "recipes").symlink_to("elsewhere")
    (user.here / "paper.yaml").symlink_to("elsewhere/paper.yaml")  # a path of the command line is opened as named
    for name in ("paper", "./paper.yaml"):
        assert "paper:cpu: no lock" in user("lock", "--check", name, code=1)


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("name", ["paper.yaml", "paper.lock.yaml"])
def test_what_replaces_a_file_that_was_read_is_not_waited_for(recipe: Path, name: str):
    write(lock_path(recipe), Lock(recipe="paper", variants={}))
    paper, lock = target("paper"), lock_file.read(lock_path(recipe))
    image, labels = Image("paper:cpu", b"{}", ()), {f"{LABEL}.recipe": "paper", f"{LABEL}.variant": "cpu"}
    assert paper.where(("base",)) == f"{recipe}:3"
    assert describe(image, labels).recipe_text == inputs._texts(recipe, lock).recipe == RECIPE
    plant("pipe", recipe.parent / name)
    with pytest.raises(UsageError, match="this is not a regular file"):
        inputs._texts(recipe, lock)
    if name == "paper.lock.yaml":
        assert describe(image, labels).lock_text == ""
        return
    assert Target(paper.recipe, paper.variant_name, recipe).where(("base",)) == str(recipe)
    with pytest.raises(UsageError, match="this is not a regular file"):
        describe(image, labels)


@pytest.mark.usefixtures("ends")
def test_records_that_are_no_file(tmp_path, monkeypatch):
    file = tmp_path / "r.jsonl"
    plant("pipe", file)
    with pytest.raises(UsageError, match="this is not a regular file"):
        printed.read(file, "paper")
    file.unlink()
    file.write_text('{"type": "x"}\n' + "x" * 1000)
    for limit, words in (("1000", "more than 1000 bytes of output"), ("2000", "neither records nor a benchmark's")):
        monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", limit)
        with pytest.raises(UsageError, match=words):
            printed.read(file, "paper")


# --- Copies of a workspace


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("kind", PLANTED)
def test_a_record_of_a_copy_in_a_checkout_is_not_read(tmp_path, monkeypatch, kind: str):
    """Copies are made below the user's own roots, so a record in a checkout is never reprokit's."""
    package, record = tmp_path / "package", Path("workspaces/.paper.copied.json")
    for folder in (package / "workspaces" / "paper", tmp_path / "checkout" / "workspaces" / "paper", tmp_path / "root"):
        folder.mkdir(parents=True)
    (package / "workspaces" / "paper" / "a").write_text("new")
    monkeypatch.setattr(paths, "data_root", lambda: package)
    monkeypatch.chdir(tmp_path / "checkout")

    def prepare(home: str) -> None:
        monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / home))
        keep_up("paper", package / "recipes" / "paper.yaml")

    plant(kind, record)
    prepare("home")
    record.unlink()
    record.write_text(json.dumps({"b": sha256(b"the user's").hexdigest()}))
    Path("workspaces/paper/b").write_text("the user's")
    prepare("home")
    assert Path("workspaces/paper/b").read_text() == "the user's"
    # The control: below a root, the same record lets the file be removed.
    Path("workspaces").rename(tmp_path / "root" / "workspaces")
    prepare("root")
    assert [path.name for path in (tmp_path / "root/workspaces/paper").iterdir()] == ["a"]


def test_a_record_of_a_copy_that_is_none(tmp_path):
    original, place = tmp_path / "original", tmp_path / "home" / "paper"
    for folder in (original, place.parent):
        folder.mkdir()
    (original / "a").write_text("old")
    copy(original, place)
    record = place.parent / ".paper.copied.json"
    good = record.read_bytes()
    (original / "a").write_text("new")
    for text in ("[]", "[" * 100_000, '{"": "x"}', '{"a\\u0000": "x"}', '{"\\ud800": "x"}', '{"a": 1}', "\udcff"):
        record.write_bytes(text.encode("utf-8", "surrogateescape"))
        renew(place, original)
    record.write_bytes(good)  # the control
    (place / "a").write_text("old")
    renew(place, original)
    assert (place / "a").read_text() == "new"


# --- Folders inside each other without end, as a container or a checkout can leave them: one clear line, few calls

DEEP = 1500  # Python's own walks recurse 1000 times, and hold a descriptor for each


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "folder").mkdir()
    yield tmp_path / "folder"
    subprocess.run(["rm", "-rf", tmp_path / "folder"], check=True)  # rmtree recurses, too


def deepen(folder: Path, levels: int) -> None:
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)


def export(folder: Path) -> list[str]:
    stored = io.BytesIO()
    tar: Any = SimpleNamespace(write=stored.write, begin=io.BytesIO, finish=lambda path, size: None)
    add_workspace(tar, "paper")
    return []


def send(folder: Path) -> list[str]:
    """The first copy to a node."""
    stream = io.BytesIO()

    def feed(script: str, write: Callable[[io.BytesIO], None]) -> SimpleNamespace:
        write(stream)
        return SimpleNamespace(returncode=0)

    connection: Any = SimpleNamespace(node=SimpleNamespace(name="far"), feed=feed)
    remote._fill(connection, "/caches/paper", None)  # type: ignore[arg-type]
    with tarfile.open(fileobj=io.BytesIO(stream.getvalue())) as tar:
        return tar.getnames()


def read_repository(folder: Path) -> list[str]:
    return list(FolderTree(folder).contents.sizes)


@pytest.mark.parametrize("reader", [export, send, read_repository])
def test_folders_are_not_followed_without_end(folder: Path, monkeypatch, reader: Callable[[Path], list[str]]):
    monkeypatch.setattr("reprokit.bundle.workspaces.workspace_of", lambda recipe: ("paper", folder))
    monkeypatch.setattr(remote, "prepare", lambda target: folder)
    deepen(folder, DEPTH.most)
    names = reader(folder)  # the control
    assert reader is export or f"{'d/' * DEPTH.most}file" in names
    with Folder(folder) as opened, monkeypatch.context() as patch:
        calls = Mock(wraps=os.open)
        patch.setattr(os, "open", calls)
        assert len(list(opened.entries("."))) == 1
    assert DEPTH.most <= calls.call_count < DEPTH.most + 5
    subprocess.run(["rm", "-rf", folder / "d"], check=True)
    deepen(folder, DEEP)
    with pytest.raises(UsageError, match="more than 64 folders inside each other") as error:
        reader(folder)
    assert error.value.hint == f"if you trust it, raise the limit: {DEPTH.variable}=128"


def test_a_copy_with_deep_build_output_is_no_fault_of_clean(folder: Path, tmp_path, monkeypatch):
    original, place = tmp_path / "package" / "workspaces" / "paper", folder / "workspaces" / "paper"
    for each in (original, place.parent):
        each.mkdir(parents=True)
    (original / "a").write_text("1")
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path / "package")
    monkeypatch.setenv("REPROKIT_HOME", str(folder))
    copy(original, place)
    (place / "build").mkdir()
    assert [each.path for each in unused_copies([])] == [place]
    deepen(place / "build", DEEP)
    assert unused_copies([]) == []


def test_an_extension_has_a_bounded_size(tmp_path, monkeypatch):
    package = tmp_path / "workspaces" / "fused_attention" / "fused_attention"
    package.mkdir(parents=True)
    (package / "op.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    assert extension.sources() == {"fused_attention/op.py": b"1"}
    for name in ("a", "b"):
        (package / name).touch()
        os.truncate(package / name, 12 << 20)
    with pytest.raises(UsageError, match="bytes in the package"):
        extension.sources()


# --- Files in the current folder that are called as modules of Python: none of them is imported


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the modules of the current folder leave."""
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("json.py", "yaml.py", "typer.py", "reprokit.py", "sitecustomize.py"):
        (root / name).write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    monkeypatch.chdir(root)
    return tmp_path / "mark"


@pytest.mark.slow
def test_programs_of_ours_import_nothing_of_the_current_folder(mark: Path, monkeypatch):
    begin = own_module("reprokit")
    done = subprocess.run([*begin, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("reprokit") and not mark.exists()
    assert bench_command(JOB, "/records")[: len(begin)] == begin  # a sweep starts it so
    script = mark.parent / "array.sbatch"
    script.write_text(slurm_array.array_script(mark.parent))
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)
    assert "jobs.json" in done.stderr and not mark.exists()  # it came as far as its own work
    subprocess.run([sys.executable, "-m", "reprokit", "--version"], capture_output=True, check=False)  # the control
    assert mark.exists()


# --- A lock beside a recipe: its packages need not be what apt would install


class Nothing:
    """Stands for what downloads, and for an amd64 base."""

    architecture = "amd64"

    def __init__(self, *_: object) -> None: ...

    def base(self, *_: object) -> Nothing:
        return self


@pytest.mark.parametrize("own", [True, False])  # True is the control
def test_the_lock_of_a_stranger_gives_no_package_to_a_new_lock(tmp_path, upstream, store, monkeypatch, own: bool):
    folder = locks_beside.Folder(tmp_path, upstream, store)
    evil, new = folder.add("evil", "curl", base="1", own=own), folder.add("new", "curl")
    base, sets, _ = folder.followed(new)
    assert (base == "1") is own and ("python" in sets) is own
    # A lock that is kept stays a stranger's: `lock` resolves nothing again if the lock is not stale.
    old = lock_file.read(lock_path(evil.path)).variants["v"]
    monkeypatch.setattr("reprokit.image.lock.resolve.Supplier", Nothing)
    update = update_of((), evil, old)
    lock_variant(locks_beside.NONE, evil, local_mirrors(store), old, update)
    assert folder.followed(new)[0] == base
