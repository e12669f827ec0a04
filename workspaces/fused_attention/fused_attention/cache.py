"""The cache of built libraries: one folder per distinct build, safe against concurrent and killed processes."""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from typing import Iterator, Optional, Sequence, Tuple


def key(folder: str, names: Sequence[str], identity: Sequence[str]) -> str:
    """A short hash of the files called `names` below `folder` and of everything else that changes the result."""
    digest = hashlib.sha256()
    for name in sorted(names):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(("%s %s\n" % (name, hashlib.sha256(file.read()).hexdigest())).encode())
    for part in identity:
        digest.update(("%d %s\n" % (len(part), part)).encode())
    return digest.hexdigest()[:16]


def folder_of(name: str, library: str) -> str:
    """The folder of the build called `name`: where its complete library is, else where it can be built.

    A complete library may be in a folder that cannot be written, such as an image's read-only layer.
    Raises OSError as root() does.
    """
    built = os.path.join(_first_choice()[1], name)
    return built if is_complete(os.path.join(built, library)) else os.path.join(root(), name)


def root() -> str:
    """The folder of all builds: $FUSED_ATTENTION_CACHE, else torch's folder of extensions, else, if the home folder
    cannot be written, a private folder below the system's temporary folder.

    Raises OSError if a requested folder cannot be written.
    """
    variable, folder = _first_choice()
    problem = _unwritable(folder)
    if problem is None:
        return folder
    if variable:
        raise OSError("%s is %s, which cannot be written (%s)" % (variable, os.environ[variable], problem.strerror))
    return _private_temporary()


def is_complete(library: str) -> bool:
    """Whether the library was finished and still has its size."""
    try:
        with open(library + ".complete") as file:
            return file.read() == str(os.path.getsize(library))
    except OSError:
        return False


def complete(library: str) -> None:
    """Mark the library as finished, once it is on disk."""
    with open(library, "rb") as file:
        os.fsync(file.fileno())
    with open(library + ".complete", "w") as file:
        file.write(str(os.path.getsize(library)))


@contextlib.contextmanager
def locked(folder: str) -> Iterator[int]:
    """Lock the folder for one builder; others wait. Yields the lock's file descriptor.

    The operating system drops the lock with the last process that has the descriptor, so a killed builder leaves none.
    """
    with open(folder + ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _first_choice() -> Tuple[str, str]:
    """The environment variable that requests a folder, or "", and that folder or the default."""
    for variable in ("FUSED_ATTENTION_CACHE", "TORCH_EXTENSIONS_DIR"):
        requested = os.environ.get(variable)
        if requested:
            return variable, os.path.abspath(requested)
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return "", os.path.join(cache_home, "torch_extensions")


def _unwritable(folder: str) -> Optional[OSError]:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error


def _private_temporary() -> str:
    folder = os.path.join(tempfile.gettempdir(), "torch_extensions-%d" % os.geteuid())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # A library is code: load none that another user may have written.
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise OSError("%s is another user's or writable by others; set FUSED_ATTENTION_CACHE" % folder)
    return folder
