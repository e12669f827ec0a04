"""Where built libraries lie: one folder per distinct build, safe against other processes and killed ones."""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from typing import Iterator, Optional, Sequence, Tuple


def key(folder: str, files: Sequence[str], identity: Sequence[str]) -> str:
    """A short hash of the files' names below `folder`, their bytes, and everything else that changes the result."""
    digest = hashlib.sha256()
    for path in sorted(files):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        digest.update(("%s %s\n" % (os.path.relpath(path, folder), content)).encode())
    for part in identity:
        digest.update(("%d %s\n" % (len(part), part)).encode())
    return digest.hexdigest()[:16]


def place(name: str, library: str) -> str:
    """The folder of the build called `name`: where its library is finished, else where it can be made.

    A finished one may lie where nothing can be written, as in an image's read-only layer.
    Raises OSError as root() does.
    """
    built = os.path.join(_first_choice()[1], name)
    return built if is_complete(os.path.join(built, library)) else os.path.join(root(), name)


def root() -> str:
    """The folder of all builds: $FUSED_ATTENTION_CACHE, or torch's folder of extensions, or, where the home
    folder cannot be written, a private one under the system's temporary folder.

    Raises OSError that names the folder if one that was asked for cannot be written.
    """
    variable, folder = _first_choice()
    problem = _unwritable(folder)
    if problem is None:
        return folder
    if variable:
        raise OSError("%s is %s, which cannot be written (%s)" % (variable, os.environ[variable], problem.strerror))
    return _private_temporary()


def is_complete(library: str) -> bool:
    """Whether this library was finished, and is still whole: a killed build leaves no mark, a tidied folder no file."""
    try:
        with open(_mark(library)) as file:
            return file.read() == str(os.path.getsize(library))
    except OSError:
        return False


def complete(library: str) -> None:
    """Marks the library as finished, once the disk has it."""
    with open(library, "rb") as file:
        os.fsync(file.fileno())
    with open(_mark(library), "w") as file:
        file.write(str(os.path.getsize(library)))


@contextlib.contextmanager
def locked(folder: str) -> Iterator[int]:
    """Holds the folder for one builder; others wait. Gives the lock's file descriptor.

    The operating system drops the lock with the last process that has the descriptor, so a killed builder leaves
    none. Hand it down to the compilers: they outlive a killed builder, and must not write beside the next one's.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "builder.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _mark(library: str) -> str:
    return library + ".complete"


def _first_choice() -> Tuple[str, str]:
    """The variable that asks for a folder, or "", and the folder of first choice."""
    for variable in ("FUSED_ATTENTION_CACHE", "TORCH_EXTENSIONS_DIR"):
        asked = os.environ.get(variable)
        if asked:
            return variable, os.path.abspath(asked)
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
    # A library is code: never load one that somebody else may have put there.
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise OSError("%s is another user's or writable by others; set FUSED_ATTENTION_CACHE" % folder)
    return folder
