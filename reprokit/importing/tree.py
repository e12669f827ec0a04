"""The files of a repository: a folder, or a commit in the store. Nothing is checked out and no link is followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from reprokit.errors import SourceError, UsageError
from reprokit.recipe.fields import GitUrl
from reprokit.redact import redact
from reprokit.supply.kinds.git.command import GitFailed, git, run_git
from reprokit.supply.kinds.git.store import borrowing_repository
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import Limit

# The Linux kernel has 90 000 files.
ENTRIES = Limit("SOURCE_ENTRIES", 200_000)
# Environments and caches beside the code, which are not the repository's.
_SKIPPED = {".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", ".eggs", "node_modules", "__pycache__"}
_GIT_URL: TypeAdapter[str] = TypeAdapter(GitUrl)
_GIT_TIMEOUT_S = 8.0
_HEAD_BYTES = 4096
_CONFIG_BYTES = 1 << 20


@dataclass
class Contents:
    """The paths of a repository with their sizes in bytes; `passed_over` says why an entry is not among them."""

    sizes: dict[str, int] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)
    submodules: dict[str, str] = field(default_factory=dict)


class Tree(Protocol):
    """`address` is https:// or empty, `commit` 40 digits or empty, `date` that of the commit.

    `release` is the version that a tag names; empty if the commit was not chosen by one.
    """

    address: str
    commit: str
    release: str
    date: datetime | None
    contents: Contents

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The content of each of these paths of `contents`. Raises UsageError or OSError if one was replaced."""
        ...


class FolderTree:
    """A folder of this machine. Its git configuration is not used: it could name programs."""

    def __init__(self, root: Path) -> None:
        self.root, self.contents = root, Contents()
        try:
            self._folder = Folder(root)
        except OSError as error:
            raise UsageError(f"cannot read the folder: {error.strerror}", str(root)) from None
        for path, kind, size in self._folder.entries(".", _SKIPPED.__contains__, ENTRIES):
            name = path.removeprefix("./")
            readable = name.encode("utf-8", "replace").decode()
            if readable != name:
                self.contents.passed_over[readable] = "a name that is not UTF-8"
            elif kind == "file":
                self.contents.sizes[name] = size
            else:
                self.contents.passed_over[name] = "a link" if kind == "link" else "not a regular file"
        self.address, self.release = self._address(), ""
        self.commit = self._commit()
        self.date = self._date()

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, self._folder.read(path, self.contents.sizes[path])

    def _git_file(self, name: str, most: int = _HEAD_BYTES) -> str:
        try:
            return self._folder.read(f".git/{name}", most).decode("utf-8", "replace")
        except (UsageError, OSError):
            return ""

    def _commit(self) -> str:
        head = self._git_file("HEAD").strip()
        if head.startswith("ref: "):
            ref = head.removeprefix("ref: ")
            if ".." in ref.split("/") or not ref.startswith("refs/"):
                return ""
            packed = (line.partition(" ") for line in self._git_file("packed-refs", _CONFIG_BYTES).splitlines())
            head = self._git_file(ref).strip() or next((commit for commit, _, name in packed if name == ref), "")
        return head if len(head) == 40 and set(head) <= set("0123456789abcdef") else ""

    def _address(self) -> str:
        with TemporaryFile() as config, TemporaryFile() as found:
            config.write(self._git_file("config", _CONFIG_BYTES).encode())
            config.seek(0)
            # A file on standard input includes no other files.
            run_git(Path("/dev/null"), "config", "--file=-", "remote.origin.url", source=config, target=found)
            found.seek(0)
            address = found.read(_HEAD_BYTES).decode("utf-8", "replace").strip()
        owner = address.removeprefix("ssh://").removeprefix("git@")
        if owner != address:
            address = f"https://{owner.replace(':', '/', 1)}"
        try:
            # CI services and helpers write a password into it.
            return _GIT_URL.validate_python(redact(address)) if address.startswith("https://") else ""
        except ValidationError:
            return ""

    def _date(self) -> datetime | None:
        """The commit's date, read by a repository of our own that borrows the objects."""
        if not self.commit:
            return None
        with TemporaryDirectory(prefix="reprokit-git-") as scratch:
            here = Path(scratch)
            borrowing_repository(here, self.root.absolute() / ".git/objects")
            return commit_date(here, self.commit)


class CommitTree:
    """A commit whose bare repository is at `folder`, in the store."""

    def __init__(self, folder: Path, address: str, commit: str, release: str = "") -> None:
        self.folder, self.address, self.commit, self.contents = folder, address, commit, Contents()
        self.release = release
        self.date = commit_date(folder, commit)
        self._blobs: dict[str, str] = {}
        listing = git("ls-tree", "-r", "-z", "-l", "--full-tree", commit, folder=folder)
        ENTRIES.check(listing.count("\0"), "files in a repository", address)
        for line in filter(None, listing.split("\0")):
            meta, _, path = line.partition("\t")
            mode, kind, blob, size = meta.split()
            if kind == "commit":
                self.contents.submodules[path] = blob
            elif mode == "120000":
                self.contents.passed_over[path] = "a link"
            elif not _SKIPPED & set(path.split("/")[:-1]):
                self.contents.sizes[path] = int(size)
                self._blobs[path] = blob

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        chosen = list(paths)
        with TemporaryFile() as asked, TemporaryFile() as answers:
            asked.write("".join(f"{self._blobs[path]}\n" for path in chosen).encode())
            asked.seek(0)
            run_git(self.folder, "cat-file", "--batch", source=asked, target=answers)
            answers.seek(0)
            for path in chosen:
                header = answers.readline().split()
                if header[1:2] != [b"blob"]:
                    raise SourceError(f"the commit {self.commit[:12]} lacks the content of a file", path)
                yield path, answers.read(int(header[2]))
                answers.read(1)


def commit_date(folder: Path, commit: str) -> datetime | None:
    """The committer's date; None if the repository lacks the commit."""
    try:
        # Not `show`, which compares trees.
        options = ("-1", "--no-show-signature", "--format=%ct")
        seconds = git("log", *options, commit, folder=folder, timeout=_GIT_TIMEOUT_S)
        return datetime.fromtimestamp(int(seconds), timezone.utc)
    except (GitFailed, UsageError, ValueError, OverflowError, OSError):
        return None
