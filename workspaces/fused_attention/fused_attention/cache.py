"""Where built libraries lie: one folder per distinct build, safe against other processes and killed ones."""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from typing import Iterator, Sequence


def key(sources: Sequence[str], identity: Sequence[str]) -> str:
    """A short hash of the files' names and bytes and of everything else that changes the result."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        digest.update(("%s %s\n" % (os.path.basename(path), content)).encode())
    for part in identity:
        digest.update(("%d %s\n" % (len(part), part)).encode())
    return digest.hexdigest()[:16]


def root() -> str:
    """The folder of all builds: $FUSED_ATTENTION_CACHE, or torch's folder of extensions, or, where the home
    folder cannot be written, a private one under the system's temporary folder.

    Raises OSError that names the folder if one that was asked for cannot be written.
    """
    for variable in ("FUSED_ATTENTION_CACHE", "TORCH_EXTENSIONS_DIR"):
        asked = os.environ.get(variable)
        if asked:
            if not _is_writable(asked):
                raise OSError("%s is %s, which cannot be written" % (variable, asked))
            return os.path.abspath(asked)
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    usual = os.path.join(cache_home, "torch_extensions")
    return usual if _is_writable(usual) else _private_temporary()


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Holds the folder for one builder; others wait.

    The operating system drops the lock with its process, so a killed builder leaves none. torch's own lock
    file does stay behind, and torch would wait for it for ever; whoever holds ours knows that nobody else
    builds here, and removes it.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "builder.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, "lock"))
        yield


def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_temporary() -> str:
    folder = os.path.join(tempfile.gettempdir(), "torch_extensions-%d" % os.geteuid())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # A library is code: never load one that somebody else may have put there.
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise OSError("%s is another user's or writable by others; set FUSED_ATTENTION_CACHE" % folder)
    return folder
