"""Files in folders that others can write, such as a workspace or a checkout, opened beneath a handle of the folder.

Each part of a path is opened from its parent's handle and without following links, so that no replaced file leads out
of the folder. The caller is responsible for the folder's own path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Literal

from reprokit.errors import UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK opening a pipe would wait for its writer.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Folder:
    """A folder and what is beneath it. Paths are relative to it, with `/`, without `..`.

    Methods raise UsageError for a link or anything else that is not a regular file, and OSError.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

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

    def files(self, path: str, most: int) -> Iterator[str]:
        """Paths of the regular files below a folder, unordered. Raises UsageError for a link, or beyond `most`."""
        for here, kind, _ in self.entries(path, most):
            if kind == "link":
                raise UsageError("this is a link, and links are not followed", str(self.root / here), "remove it")
            if kind == "file":
                yield here

    def entries(
        self, path: str, most: int, skips: Callable[[str], bool] = lambda name: False
    ) -> Iterator[tuple[str, Literal["file", "link", "other"], int]]:
        """Path, kind and size in bytes of everything below a folder that is no folder, unordered.

        Folders with a name that `skips` accepts are passed over. Raises UsageError beyond `most` entries.
        """
        left = [path]
        while left:
            folder = left.pop()
            with self._parent(f"{folder}/x") as (handle, _), os.scandir(handle) as found:
                for entry in found:
                    most -= 1
                    if most < 0:
                        raise UsageError("the folder has too many entries", str(self.root / path))
                    here = f"{folder}/{entry.name}"
                    if entry.is_symlink():
                        yield here, "link", 0
                    elif entry.is_dir(follow_symlinks=False):
                        if not skips(entry.name):
                            left.append(here)
                    elif entry.is_file(follow_symlinks=False):
                        yield here, "file", entry.stat(follow_symlinks=False).st_size
                    else:
                        yield here, "other", 0

    @contextlib.contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """The handle of the folder that contains `path`, and the last name of `path`."""
        *folders, name = PurePosixPath(path).parts
        if path.startswith("/") or ".." in (*folders, name):
            raise UsageError("this path leads out of its folder", path)
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


def read(path: Path, most: int, start: int = 0) -> bytes:
    """A regular file of at most `most` bytes from `start` on, links followed: what a link leads to is only read.

    Raises UsageError where there is more or something else, such as a pipe, which would be waited for; OSError.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UsageError("this is no regular file", str(path))
        file.seek(start)
        return _bounded(file, most, path)


def _bounded(file: IO[bytes], most: int, path: Path) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"the file has more than {most} bytes", str(path))
    return content


def pack(root: Path, tar: tarfile.TarFile, leaves_out: Callable[[str], bool]) -> None:
    """Add what is beneath a folder to a tar: folders, regular files, and links as they are; without owners.

    Whatever else is there is passed over, and what `leaves_out` of its name. Raises UsageError where an entry is
    replaced meanwhile, OSError as the system says.
    """
    try:
        for path, folders, files, handle in os.fwalk(root, onerror=_raise):  # follows no link, however late it is made
            folders[:] = sorted(name for name in folders if not leaves_out(name))
            for name in sorted({*folders, *(name for name in files if not leaves_out(name))}):
                _pack_entry(tar, handle, name, Path(path, name).relative_to(root).as_posix())
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR):
            raise
        raise UsageError("a file was replaced while it was read", str(root), "try again") from None


def _raise(error: OSError) -> None:
    raise error


def _pack_entry(tar: tarfile.TarFile, parent: int, name: str, path: str) -> None:
    info, found = tarfile.TarInfo(path), os.stat(name, dir_fd=parent, follow_symlinks=False)
    info.mode, info.mtime = stat.S_IMODE(found.st_mode), int(found.st_mtime)
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISLNK(found.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=parent)
        tar.addfile(info)
    elif stat.S_ISREG(found.st_mode):
        with os.fdopen(os.open(name, os.O_RDONLY | _FILE, dir_fd=parent), "rb") as file:
            opened = os.fstat(file.fileno())
            info.size = opened.st_size
            if stat.S_ISREG(opened.st_mode):
                tar.addfile(info, file)
