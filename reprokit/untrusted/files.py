"""Files in folders that others can write, such as a workspace or a checkout, opened beneath a handle of the folder.

Each part of a path is opened from its parent's handle and without following links, so that no replaced file leads out
of the folder. The caller is responsible for the folder's own path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Literal

from reprokit.errors import UsageError
from reprokit.untrusted.limits import DEPTH, ENTRIES, Limit

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK opening a pipe would wait for its writer.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Folder:
    """A folder. Paths are relative to it, with `/`, without `..`.

    Methods raise UsageError for a link or anything else that is not a regular file, and OSError.
    """

    def __init__(self, root: Path, handle: int | None = None) -> None:
        """Open `root`, unless it is open already as `handle`."""
        self.root = root
        self._handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if handle is None else handle

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._handle)

    def has(self, path: str) -> bool:
        """Whether the path exists, also as a link."""
        try:
            with self._parent(path) as (parent, name):
                os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def make(self, path: str) -> None:
        """Make a folder and its missing parents."""
        with self._parent(f"{path}/x", make=True):
            pass

    def folder(self, path: str) -> Folder:
        """A folder beneath this one; it and its missing parents are made."""
        with self._parent(f"{path}/x", make=True) as (handle, _):
            return Folder(self.root / path, os.dup(handle))

    def fileno(self) -> int:
        return self._handle

    def refuse_links(self, path: str) -> None:
        """Raises UsageError if a part of the path is a link."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._parent(f"{path}/x"):
            pass

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def read(self, path: str, most: int) -> bytes:
        """The content of a file of at most `most` bytes."""
        with os.fdopen(self.open(path, os.O_RDONLY), "rb") as file:
            return _bounded(file, most, self.root / path)

    def open(self, path: str, flags: int) -> int:
        """The descriptor of a regular file; O_CREAT also makes missing folders."""
        with self._parent(path, make=bool(flags & os.O_CREAT)) as (parent, name):
            try:
                handle = os.open(name, flags | _FILE, 0o666, dir_fd=parent)
            except OSError as error:
                raise self._refused(error, path) from None
        info = os.fstat(handle)
        # A file with a second name may also be outside the folder.
        if not stat.S_ISREG(info.st_mode) or (info.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR)):
            os.close(handle)
            raise UsageError("this is not a regular file with a single name", str(self.root / path), "remove it")
        return handle

    def mkdir(self, path: str) -> None:
        """Make a folder in an existing one."""
        with self._parent(path) as (parent, name):
            os.mkdir(name, dir_fd=parent)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link. The caller must check its target."""
        with self._parent(path) as (parent, name):
            os.symlink(target, name, dir_fd=parent)

    @contextlib.contextmanager
    def replacing(self, path: str) -> Iterator[IO[bytes]]:
        """A new file that replaces `path` when the block ends."""
        with self._parent(path, make=True) as (parent, name):
            temporary = f".{name[:200]}.{secrets.token_hex(8)}"
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    yield file
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def files(self, path: str) -> Iterator[tuple[str, int]]:
        """Path and size in bytes of the regular files below a folder. Raises UsageError for a link."""
        for inner, kind, size in self.entries(path):
            if kind == "link":
                raise UsageError("this is a link, and links are not followed", str(self.root / inner), "remove it")
            if kind == "file":
                yield inner, size

    def size(self, excludes: Callable[[str], bool]) -> int:
        """The bytes of the regular files that `pack` adds."""
        walk = _walk(self._handle, self.root, lambda entry: excludes(entry.name))
        files = (entry for _, entry, _ in walk if entry.is_file(follow_symlinks=False))
        return sum(entry.stat(follow_symlinks=False).st_size for entry in files)

    def entries(
        self, path: str, skips: Callable[[str], bool] = lambda name: False, limit: Limit = ENTRIES
    ) -> Iterator[tuple[str, Literal["file", "link", "other"], int]]:
        """Path, kind and size in bytes of everything below a folder, except folders.

        Folders with a name that `skips` accepts are skipped. Raises UsageError for too many or too deep entries.
        """
        with self._parent(f"{path}/x") as (handle, _):
            walk = _walk(handle, self.root / path, lambda entry: _is_folder(entry) and skips(entry.name), limit)
            for below, entry, _ in walk:
                inner = f"{path}/{below}"
                if entry.is_symlink():
                    yield inner, "link", 0
                elif entry.is_file(follow_symlinks=False):
                    yield inner, "file", entry.stat(follow_symlinks=False).st_size
                elif not _is_folder(entry):
                    yield inner, "other", 0

    @contextlib.contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """The handle of the folder that contains `path`, and the last name of `path`."""
        *folders, name = PurePosixPath(path).parts or ("",)
        if path.startswith("/") or ".." in (*folders, name):
            raise UsageError("this path leads out of its folder", path)
        if not name or "\0" in path or not _has_bytes(path):
            raise UsageError("no file can have this path", repr(path))
        DEPTH.check(len(folders), "folders inside each other", path)
        handle = os.dup(self._handle)
        try:
            for folder in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=handle)
                try:
                    inner = os.open(folder, _FOLDER, dir_fd=handle)
                except OSError as error:
                    raise self._refused(error, path) from None
                os.close(handle)
                handle = inner
            yield handle, name
        finally:
            os.close(handle)

    def _refused(self, error: OSError, path: str) -> Exception:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and not self._plain(path)):
            return UsageError(
                "a link is in the way, and links are not followed", str(self.root / path), "remove the link"
            )
        return error

    def _plain(self, path: str) -> bool:
        """Whether the path has no link in it. Used only to choose the error message."""
        whole = PurePosixPath(path)
        return not any((self.root / part).is_symlink() for part in (whole, *list(whole.parents)[:-1]))


@contextlib.contextmanager
def current(option: str = "") -> Iterator[Folder]:
    """The current folder, which may be a stranger's checkout, for a command's default output.

    The hint of a UsageError also names the `option` for another path, such as `-o DIR`.
    """
    with Folder(Path.cwd()) as folder:
        try:
            yield folder
        except UsageError as error:
            if option:
                error.hint = f"{error.hint}, or name another path: {option}"
            raise


def output_folder(named: Path | None, usual: Path, option: str = "-o DIR") -> Folder:
    """The folder of a command's output, made if missing: `named` by the user, or `usual`.

    The usual one is beneath the current folder, and no link in it is followed. Raises UsageError for a link, OSError.
    """
    if named is None:
        with current(option) as folder:
            return folder.folder(str(usual))
    named.mkdir(parents=True, exist_ok=True)
    return Folder(named)


def opened(path: Path) -> IO[bytes]:
    """Open a regular file to read, following links.

    Raises UsageError for anything else, such as a pipe, on which a read would wait; OSError.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UsageError("this is not a regular file", str(path))
    return file


def read(path: Path, most: int) -> bytes:
    """A regular file of at most `most` bytes. Raises as `opened`, and UsageError if there is more."""
    with opened(path) as file:
        return _bounded(file, most, path)


def _bounded(file: IO[bytes], most: int, path: Path) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"the file has more than {most} bytes", str(path))
    return content


def pack(root: Path, tar: tarfile.TarFile, excludes: Callable[[str], bool]) -> None:
    """Add the content of a folder to a tar: folders, regular files, and unresolved links; without owners.

    Other entries, and names that `excludes` accepts, are skipped. Raises UsageError if an entry is replaced meanwhile,
    or folders are too deep; OSError.
    """
    try:
        with Folder(root) as folder:
            for path, entry, parent in _walk(folder._handle, root, lambda entry: excludes(entry.name)):
                _pack_entry(tar, parent, entry.name, path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR):
            raise
        raise UsageError("a file was replaced while it was read", str(root), "try again") from None


def stamp_of(folder: Path) -> str:
    """A digest of the names, sizes and times of all files below, except in .git; any change of a file changes it."""
    digest = hashlib.sha256()
    with Folder(folder) as opened:
        for path, entry, _ in _walk(opened._handle, folder, lambda entry: entry.name == ".git", ENTRIES):
            if not stat.S_ISDIR((info := entry.stat(follow_symlinks=False)).st_mode):
                digest.update(repr((path, info.st_mode, info.st_size, info.st_mtime_ns)).encode())
    return digest.hexdigest()


def _walk(
    root: int, where: Path, skips: Callable[[os.DirEntry[str]], bool], limit: Limit | None = None
) -> Iterator[tuple[str, os.DirEntry[str], int]]:
    """Path, entry and parent's handle of everything below a folder, by name; a folder comes before its content.

    Each folder is opened once, from its parent's handle, and no link is followed: a folder that was replaced meanwhile
    is skipped. Raises UsageError for too many entries or too deep folders.
    """
    count, most = 0, limit.most if limit else sys.maxsize
    left = [(os.dup(root), "", ["."])]
    try:
        while left:
            parent, above, names = left[-1]
            if not names:
                os.close(left.pop()[0])
                continue
            name = names.pop()
            try:
                handle = os.open(name, _FOLDER, dir_fd=parent)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    continue
                raise
            path = "" if name == "." else f"{above}{name}/"
            left.append((handle, path, []))
            DEPTH.check(len(left) - 2, "folders inside each other", str(where / path))
            entries = []
            with os.scandir(handle) as scanned:
                for entry in scanned:
                    count += 1
                    if limit and count > most:
                        limit.check(count, "entries in a folder", str(where))
                    if not skips(entry):
                        entries.append(entry)
            entries.sort(key=lambda entry: entry.name)
            left[-1][2].extend(entry.name for entry in reversed(entries) if _is_folder(entry))
            for entry in entries:
                yield path + entry.name, entry, handle
    finally:
        for handle, _, _ in left:
            os.close(handle)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _has_bytes(path: str) -> bool:
    """Whether a file can have this name: half a surrogate pair has no bytes."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _pack_entry(tar: tarfile.TarFile, parent: int, name: str, path: str) -> None:
    info, status = tarfile.TarInfo(path), os.stat(name, dir_fd=parent, follow_symlinks=False)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=parent)
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        with os.fdopen(os.open(name, os.O_RDONLY | _FILE, dir_fd=parent), "rb") as file:
            opened = os.fstat(file.fileno())
            info.size = opened.st_size
            if stat.S_ISREG(opened.st_mode):
                tar.addfile(info, file)
