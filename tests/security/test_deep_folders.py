"""Folders inside each other without end, as a container or a checkout can leave them: one clear line, few calls."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from reprokit import paths
from reprokit.bench import extension
from reprokit.bundle.workspaces import add_workspace
from reprokit.errors import UsageError
from reprokit.host.workspace import copy, unused_copies
from reprokit.importing.tree import FolderTree
from reprokit.nodes import workspace_copy
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import DEPTH

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
    workspace_copy._fill(connection, "/caches/paper", None, lambda line: None)  # type: ignore[arg-type]
    with tarfile.open(fileobj=io.BytesIO(stream.getvalue())) as tar:
        return tar.getnames()


def read_repository(folder: Path) -> list[str]:
    return list(FolderTree(folder).contents.sizes)


@pytest.mark.parametrize("reader", [export, send, read_repository])
def test_folders_are_not_followed_without_end(folder: Path, monkeypatch: pytest.MonkeyPatch, reader):
    monkeypatch.setattr("reprokit.bundle.workspaces.workspace_of", lambda recipe: ("paper", folder))
    monkeypatch.setattr(workspace_copy, "prepare", lambda target, notify: folder)
    deepen(folder, DEPTH.most)
    found = reader(folder)  # the control
    assert reader is export or f"{'d/' * DEPTH.most}file" in found
    subprocess.run(["rm", "-rf", folder / "d"], check=True)
    deepen(folder, DEEP)
    with pytest.raises(UsageError, match="more than 64 folders inside each other") as error:
        reader(folder)
    assert error.value.hint == f"if you trust it, raise the limit: {DEPTH.variable}=128"


def test_each_folder_is_opened_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    deepen(folder, DEPTH.most)
    calls = Mock(wraps=os.open)
    monkeypatch.setattr(os, "open", calls)
    with Folder(folder) as opened:
        assert len(list(opened.entries("."))) == 1
    assert DEPTH.most < calls.call_count < DEPTH.most + 5


def test_a_copy_with_deep_build_output_is_no_fault_of_clean(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    original = tmp_path / "package" / "workspaces" / "paper"
    original.mkdir(parents=True)
    (original / "a").write_text("1")
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path / "package")
    monkeypatch.setenv("REPROKIT_HOME", str(folder))
    place = folder / "workspaces" / "paper"
    place.parent.mkdir()
    copy(original, place)
    (place / "build").mkdir()
    assert [each.path for each in unused_copies([])] == [place]
    deepen(place / "build", DEEP)
    assert unused_copies([]) == []


def test_an_extension_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "workspaces" / "fused_attention" / "fused_attention"
    package.mkdir(parents=True)
    (package / "op.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    assert extension.sources(print) == {"fused_attention/op.py": b"1"}
    for name in ("a", "b"):
        os.truncate(os.open(package / name, os.O_CREAT | os.O_RDWR), 12 << 20)
    with pytest.raises(UsageError, match="bytes in the package"):
        extension.sources(print)
