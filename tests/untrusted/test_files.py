"""Files beneath a folder: whatever a stranger plants in it, nothing outside is read or written."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.untrusted.files import Folder, pack

MOST = 1 << 20


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_bytes(b"secret")
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def write(folder: Folder, path: str, content: bytes) -> None:
    with os.fdopen(folder.open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.write(content)


def replace(folder: Folder, path: str, content: bytes) -> None:
    with folder.replacing(path) as file:
        file.write(content)


@pytest.mark.parametrize("put", [write, replace])
def test_files_are_written_and_read(root: Path, put):
    with Folder(root) as folder:
        assert not folder.has("a/b/c")
        put(folder, "a/b/c", b"1")
        put(folder, "a/b/c", b"2")
        assert folder.has("a/b/c") and folder.read("a/b/c", 1) == b"2"
        (root / "d").mkdir()
        (root / "d/e").write_bytes(b"")
        assert sorted(folder.files("a")) == [("a/b/c", 1)]
    assert sorted(path.name for path in root.rglob("*")) == ["a", "b", "c", "d", "e"]


def test_a_block_that_fails_leaves_what_was_there(root: Path):
    (root / "a").write_bytes(b"old")
    with Folder(root) as folder, pytest.raises(ZeroDivisionError), folder.replacing("a"):
        raise ZeroDivisionError
    assert [path.name for path in root.iterdir()] == ["a"] and (root / "a").read_bytes() == b"old"


@pytest.mark.parametrize("kind", ["file", "folder", "below a link"])
def test_links_are_not_followed(root: Path, outside: Path, kind: str):
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "up").symlink_to("../../..")
    link, leads_to, path = {
        "file": ("x", outside / "secret", "x"),
        "folder": ("d", outside, "d/secret"),
        "below a link": ("d", "a/b/up/home", "d/secret"),
    }[kind]
    (root / link).symlink_to(leads_to)
    assert (root / path).read_bytes() == b"secret"  # as a careless reader would
    with Folder(root) as folder:
        for attempt in (lambda: folder.read(path, MOST), lambda: write(folder, path, b"x")):
            with pytest.raises(UsageError, match="a link is in the way"):
                attempt()
        for listed in (".", "a"):
            with pytest.raises(UsageError, match="a link"):
                list(folder.files(listed))
    assert (outside / "secret").read_bytes() == b"secret" and names(outside) == ["secret"]


def test_links_and_other_names_of_a_file_are_replaced_and_not_written_through(root: Path, outside: Path):
    (root / "x").symlink_to(outside / "secret")
    os.link(outside / "secret", root / "y")
    with Folder(root) as folder:
        assert folder.has("x")
        replace(folder, "x", b"mine")
        with pytest.raises(UsageError, match="not a regular file with a single name"):
            write(folder, "y", b"x")
    assert (root / "x").read_bytes() == b"mine" and not (root / "x").is_symlink()
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../home/secret", "leads out"),
        ("/etc/passwd", "leads out"),
        ("a/../../home/secret", "leads out"),
        ("pipe", "not a regular file with a single name"),  # and it is not waited for
        *((path, "no file can have this path") for path in ("", ".", "a\0b", "\ud800")),
    ],
)
def test_paths_that_are_refused(root: Path, outside: Path, path: str, message: str):
    (root / "a").mkdir()
    os.mkfifo(root / "pipe")
    with Folder(root) as folder, pytest.raises(UsageError, match=message):
        folder.read(path, MOST)


def test_sizes_and_counts_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch):
    (root / "big").write_bytes(bytes(100))
    with Folder(root) as folder:
        with pytest.raises(UsageError, match="more than 99 bytes"):
            folder.read("big", 99)
        for number in range(20):
            (root / f"f{number}").touch()
        monkeypatch.setenv("REPROKIT_LIMIT_ENTRIES", "20")
        with pytest.raises(UsageError, match="more than 20 entries"):
            list(folder.files("."))
        monkeypatch.setenv("REPROKIT_LIMIT_ENTRIES", "21")
        assert len(list(folder.files("."))) == 21


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def swapped(root: Path, outside: Path) -> Iterator[Path]:
    """A folder that is a link to `outside` every other moment, as a container could make it."""
    folder, aside, link = root / "d", root / "aside", root / "link"
    folder.mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                folder.rename(aside)
            with contextlib.suppress(OSError):
                link.symlink_to(outside)
                link.rename(folder)
                folder.unlink()
            with contextlib.suppress(OSError):
                aside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    yield folder
    stop.set()
    thread.join()


@pytest.mark.slow
def test_a_folder_that_is_swapped_leads_nowhere(root: Path, swapped: Path, outside: Path):
    # The control: the same attack on a path leads out.
    deadline = time.monotonic() + 300
    while names(outside) == ["secret"]:
        assert time.monotonic() < deadline
        with contextlib.suppress(OSError):
            (swapped / "new").write_bytes(b"x")
    (outside / "new").unlink()
    written = 0
    with Folder(root) as folder:
        for _ in range(1000):
            with contextlib.suppress(UsageError, OSError):
                replace(folder, "d/secret", b"x")
                written += 1
    assert written
    assert names(outside) == ["secret"] and (outside / "secret").read_bytes() == b"secret"


def packed(root: Path, swap: Callable[[], None] = lambda: None) -> dict[str, tarfile.TarInfo]:
    """What is packed of a folder; `swap` is called before the file `now`."""
    buffer = io.BytesIO()

    def excluded(name: str) -> bool:
        if name == "now":
            swap()
        return name in ("now", "left")

    with tarfile.open(fileobj=buffer, mode="w") as tar:
        pack(root, tar, excluded)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as tar:
        return {member.name: member for member in tar}


def test_a_folder_is_packed_with_its_links_as_they_are(root: Path, tmp_path: Path):
    (root / "a/left").mkdir(parents=True)
    (root / "a/f").write_text("content")
    (root / "a/f").chmod(0o640)
    os.link(root / "a/f", root / "second")
    (root / "link").symlink_to(tmp_path)
    (root / "a/dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    entries = packed(root)
    assert sorted(entries) == ["a", "a/dangling", "a/f", "link", "second"]
    assert entries["a"].isdir() and entries["link"].linkname == str(tmp_path)
    assert entries["a/dangling"].linkname == "nowhere"
    for entry in (entries["a/f"], entries["second"]):
        assert (entry.size, entry.mode, entry.uid, entry.uname) == (7, 0o640, 0, "")


def test_a_folder_that_is_replaced_by_a_link_while_it_is_packed_leads_nowhere(root: Path, outside: Path):
    (root / "inner").mkdir()
    (root / "now").touch()

    def swap() -> None:
        (root / "inner").rmdir()
        (root / "inner").symlink_to(outside)

    entries = packed(root, swap)
    assert list(entries) == ["inner"] and entries["inner"].issym()
    # The control: read by path, the host's file comes along.
    assert [path.name for path in (root / "inner").iterdir()] == ["secret"]


def test_what_goes_or_cannot_be_listed_while_a_folder_is_packed_is_reported(root: Path, monkeypatch):
    (root / "now").touch()
    (root / "x").touch()
    with pytest.raises(UsageError, match="replaced while it was read"):
        packed(root, (root / "x").unlink)
    (root / "inner").mkdir()
    real = os.scandir

    def scandir(where):
        if isinstance(where, int) and Path(f"/proc/self/fd/{where}").readlink().name == "inner":
            raise PermissionError(13, "Permission denied")
        return real(where)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        packed(root)
