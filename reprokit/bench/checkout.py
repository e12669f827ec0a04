"""The git commit that a workspace is at, read without running anything that its repository configures.

Containers write into a workspace, so its `.git/config` could name filters, hooks and monitors that git would run here.
git therefore gets a repository of our own, with our configuration and a copy of the index, whose objects are borrowed.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from reprokit import paths
from reprokit.errors import ReprokitError
from reprokit.supply.kinds.git.command import environment, git
from reprokit.untrusted import files

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_TEXT, _MOST_REFS, _MOST_INDEX = 4096, 64 << 20, 256 << 20
# A container can leave pipes in place of files, or files that take git very long.
_GIT_TIMEOUT_S = 8.0
_OURS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}


def commit_of(folder: Path) -> tuple[str, bool | None]:
    """The commit of the repository around `folder`, and whether its tracked files differ from it.

    Empty and None where there is no repository, or where it cannot be read.
    """
    for root in (folder, *folder.parents):
        if (root / ".git").exists():
            with suppress(ReprokitError, OSError, ValueError):
                return _state(root)
            break
    return "", None


def _state(root: Path) -> tuple[str, bool | None]:
    own = root / ".git"
    if own.is_file():  # a worktree or a submodule
        own = root / _text(own).removeprefix("gitdir:").strip()
    common = own
    if (own / "commondir").is_file():
        common = own / _text(own / "commondir")
    commit = _head(own, common)
    if not commit:
        return "", None
    try:
        return commit, _changed(root, own, common, commit)
    except (ReprokitError, OSError):
        return commit, None


def _head(own: Path, common: Path) -> str:
    head = _text(own / "HEAD")
    if _COMMIT.fullmatch(head):
        return head
    name = head.removeprefix("ref:").strip()
    if not re.fullmatch(r"refs/[\w./+@-]+", name) or ".." in name:
        return ""
    with suppress(FileNotFoundError):
        found = _text(common / name)
        return found if _COMMIT.fullmatch(found) else ""
    packed = files.read(common / "packed-refs", _MOST_REFS).decode("utf-8", "replace")
    match = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", packed, re.MULTILINE)
    return match[1] if match else ""


def _changed(root: Path, own: Path, common: Path, commit: str) -> bool:
    with tempfile.TemporaryDirectory(dir=paths.private(paths.home() / "tmp")) as name:
        mirror = Path(name)
        kind = "sha1" if len(commit) == 40 else "sha256"
        environ = environment() | _OURS
        git("init", "-q", "--template=", f"--object-format={kind}", "--bare", name, environ=environ)
        (mirror / "HEAD").write_text(commit + "\n", encoding="ascii")
        (mirror / "objects" / "info").mkdir(exist_ok=True)
        alternates = f"{(common / 'objects').resolve()}\n"
        (mirror / "objects" / "info" / "alternates").write_text(alternates, encoding="utf-8")
        # git reads again what may have changed in the moment that the index was written: the copy needs its time.
        written = (own / "index").stat().st_mtime_ns
        (mirror / "index").write_bytes(files.read(own / "index", _MOST_INDEX))
        os.utime(mirror / "index", ns=(written, written))
        where = (f"--work-tree={root}", "-c", "core.bare=false", "-c", "core.fsmonitor=false")
        options = ("--porcelain", "--untracked-files=no", "--ignore-submodules=all")
        listed = git(*where, "status", *options, folder=mirror, environ=environ, timeout=_GIT_TIMEOUT_S)
        return bool(listed.strip())


def _text(path: Path) -> str:
    return files.read(path, _MOST_TEXT).decode("utf-8").strip()
