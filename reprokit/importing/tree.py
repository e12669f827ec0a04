"""The files of a repository (a folder, or a commit in the store), and the date for which versions are resolved.

Nothing is checked out and no link is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple, Protocol

from pydantic import TypeAdapter, ValidationError

from reprokit.errors import SourceError, UsageError
from reprokit.importing.merge import is_version
from reprokit.recipe.fields import GitUrl
from reprokit.redact import redact
from reprokit.supply.kinds.git.command import GitFailed, git, run_git
from reprokit.supply.kinds.git.fetch import ensure, git_environment, unread
from reprokit.supply.kinds.git.store import borrowing_repository, folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors import Mirrors
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import Limit


class Moment(NamedTuple):
    """The date of versions; `time` is ISO 8601 in UTC for an index, empty for now."""

    day: date
    time: str


def moment_of(text: str, commit: datetime | None, where: str) -> Moment:
    """The moment of `--as-of`; without it, the commit's date if it is known.

    Raises UsageError for an invalid date, and for `commit` if its date is unknown.
    """
    if text == "now" or not (text or commit):
        return Moment(datetime.now(timezone.utc).date(), "")
    if text in ("", "commit"):
        if commit is None:
            raise UsageError("the date of the commit is not known", where, "give a date: --as-of 2021-06-30")
        return Moment(commit.date(), commit.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date", "--as-of", "write 2021-06-30, `commit` or `now`") from None
    return Moment(day, f"{day}T23:59:59Z")


# The Linux kernel has 90 000 files.
ENTRIES = Limit("SOURCE_ENTRIES", 200_000)
# Environments and caches, which are not part of the repository.
_SKIPPED = {".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", ".eggs", "node_modules", "__pycache__"}
_GIT_URL: TypeAdapter[str] = TypeAdapter(GitUrl)
_GIT_TIMEOUT_S = 8.0
_HEAD_BYTES = 4096
_CONFIG_BYTES = 1 << 20


@dataclass
class Contents:
    """The paths of a repository with their sizes in bytes; `passed_over` gives the reason for each excluded entry."""

    sizes: dict[str, int] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)
    submodules: dict[str, str] = field(default_factory=dict)


class Tree(Protocol):
    """A repository. `address` is https:// or empty, `commit` 40 digits or empty, `date` that of the commit.

    `release` is the version in the name of the requested tag; empty without a tag.
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
        with TemporaryFile() as config, TemporaryFile() as output:
            config.write(self._git_file("config", _CONFIG_BYTES).encode())
            config.seek(0)
            # A file on standard input includes no other files.
            run_git(Path("/dev/null"), "config", "--file=-", "remote.origin.url", source=config, target=output)
            output.seek(0)
            address = output.read(_HEAD_BYTES).decode("utf-8", "replace").strip()
        owner = address.removeprefix("ssh://").removeprefix("git@")
        if owner != address:
            address = f"https://{owner.replace(':', '/', 1)}"
        try:
            # CI services and credential helpers write a password into the address.
            return _GIT_URL.validate_python(redact(address)) if address.startswith("https://") else ""
        except ValidationError:
            return ""

    def _date(self) -> datetime | None:
        """The commit's date, read by a repository of our own that borrows the objects."""
        if not self.commit:
            return None
        with TemporaryDirectory(prefix="reprokit-git-") as scratch:
            repository = Path(scratch)
            borrowing_repository(repository, self.root.absolute() / ".git/objects")
            return commit_date(repository, self.commit)


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
        with TemporaryFile() as request, TemporaryFile() as answers:
            request.write("".join(f"{self._blobs[path]}\n" for path in chosen).encode())
            request.seek(0)
            run_git(self.folder, "cat-file", "--batch", source=request, target=answers)
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


def opened(source: str, commit: str, mirrors: Mirrors) -> Tree:
    """The files of SOURCE at a commit, tag or branch; its default branch if empty. Raises UsageError, SourceError."""
    if "://" not in source:
        if commit:
            hint = "give the address of its repository as --from, or check the commit out"
            raise UsageError("a folder is read as it is; --commit is for git addresses", source, hint)
        host, colon, path = source.rpartition("@")[2].partition(":")
        if "@" in source and colon and not Path(source).exists():
            raise UsageError(f"{source!r} is an address for ssh", "--from", f"write it as https://{host}/{path}")
        return FolderTree(Path(source))
    try:
        address = TypeAdapter(GitUrl).validate_python(source)
    except ValueError:
        shown = redact(source)
        raise UsageError(f"{shown!r} is not an https:// address of a git repository", "--from") from None
    pinned = Commit(address, commit if _is_full(commit) else _resolved(address, commit or "HEAD", mirrors))
    ensure([pinned], mirrors)
    return CommitTree(folder_of(pinned, mirrors.store), address, pinned.commit, _release(commit))


def _release(tag: str) -> str:
    """The version that a tag such as `v1.2` names."""
    number = tag.removeprefix("v")
    return number if "." in number and is_version(number) else ""


def _is_full(commit: str) -> bool:
    return len(commit) == 40 and set(commit) <= set("0123456789abcdef")


def _resolved(address: str, name: str, mirrors: Mirrors) -> str:
    """The commit of a branch, a tag or HEAD."""
    if name.startswith("-"):
        raise UsageError(f"{name!r} is not a branch, tag or commit", "--commit")
    for place in mirrors.git(address):
        try:
            with git_environment(place, mirrors) as environ:
                lines = git("ls-remote", "--", place, name, f"{name}^{{}}", environ=environ).splitlines()
        except GitFailed as error:
            failure = error
            continue
        refs = {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}
        for ref in (f"refs/tags/{name}^{{}}", f"refs/tags/{name}", f"refs/heads/{name}", name):
            if ref in refs:
                return refs[ref]
        hint = "--commit takes a branch, a tag or a full commit of 40 digits"
        raise UsageError(f"the repository has no branch or tag {name!r}", address, hint)
    raise unread(failure, address, f"the repository cannot be read: {failure}")
