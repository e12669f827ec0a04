"""The git commit that a workspace is at, read without running anything that its repository configures.

Containers write into a workspace, so its `.git/config` could name filters, hooks and monitors that git would run here.
git therefore gets a repository of our own, with our configuration and a copy of the index, whose objects are borrowed.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from reprokit import paths
from reprokit.errors import ReprokitError
from reprokit.results.record import Checkout
from reprokit.supply.kinds.git.command import environment, git
from reprokit.untrusted import files

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_TEXT, _MOST_REFS, _MOST_INDEX = 4096, 64 << 20, 256 << 20
# The relevant part of git's rules for branch names; `.invalid` stands for references in another form.
_REFERENCE = re.compile(r"refs/(?!.*(?:\.\.|/\.))[^\x00-\x20\x7f~^:?*\[\\]+")
_UNREAD = "the commit of the workspace is unknown: its git repository could not be read"
# A container can leave pipes in place of files, or files that keep git busy.
_GIT_TIMEOUT_S = 8.0
_OURS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}


def checkout_of(folder: Path) -> Checkout:
    """The state of `folder` in its repository.

    Empty without a repository or commit, or if no file of the folder is tracked. Has a warning if it cannot be read.
    """
    for root in (folder, *folder.parents):
        if (root / ".git").exists():
            try:
                return _state(root, folder)
            except (ReprokitError, OSError, ValueError):
                return Checkout(warnings=(_UNREAD,))
    return Checkout()


def _state(root: Path, folder: Path) -> Checkout:
    own = root / ".git"
    if own.is_file():  # a worktree or a submodule
        own = root / _text(own).removeprefix("gitdir:").strip()
    common = own
    if (own / "commondir").is_file():
        common = own / _text(own / "commondir")
    _check_place(root, own, common)
    commit = _head(own, common)
    if not commit:
        return Checkout()
    try:
        return _compared(root, folder, own, common, commit)
    except (ReprokitError, OSError):
        return Checkout(commit=commit)


def _check_place(root: Path, own: Path, common: Path) -> None:
    """Raises ValueError for a repository elsewhere: a container can make the workspace's `.git` name any folder.

    A worktree is accepted if its repository names it.
    """
    roots = [root.resolve(), *(parent / ".git" / "modules" for parent in root.resolve().parents)]

    def inside(path: Path) -> bool:
        return any(path.resolve().is_relative_to(place) for place in roots)

    if inside(own):
        linked = inside(common) and inside(common / "objects")
    else:
        linked = (own / _text(own / "gitdir")).resolve() == root.resolve() / ".git"
    if not linked:
        raise ValueError


def _head(own: Path, common: Path) -> str:
    """The commit; "" on a branch that has none yet. Raises ValueError if HEAD holds neither commit nor branch."""
    head = _text(own / "HEAD")
    if _COMMIT.fullmatch(head):
        return head
    name = head.removeprefix("ref:").strip()
    if not _REFERENCE.fullmatch(name):
        raise ValueError
    packed = ""
    with suppress(FileNotFoundError):
        commit = _text(common / name)
        if not _COMMIT.fullmatch(commit):
            raise ValueError
        return commit
    with suppress(FileNotFoundError):
        packed = files.read(common / "packed-refs", _MOST_REFS).decode("utf-8", "replace")
    match = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", packed, re.MULTILINE)
    return match[1] if match else ""


def _compared(root: Path, folder: Path, own: Path, common: Path, commit: str) -> Checkout:
    with tempfile.TemporaryDirectory(dir=paths.private(paths.home() / "tmp")) as name:
        mirror = Path(name)
        kind = "sha1" if len(commit) == 40 else "sha256"
        environ = environment() | _OURS
        git("init", "-q", "--template=", f"--object-format={kind}", "--bare", name, environ=environ)
        (mirror / "HEAD").write_text(commit + "\n", encoding="ascii")
        (mirror / "objects" / "info").mkdir(exist_ok=True)
        alternates = f"{(common / 'objects').resolve()}\n"
        (mirror / "objects" / "info" / "alternates").write_text(alternates, encoding="utf-8")
        # git rereads files that changed when the index was written, so the copy must have the index's time.
        written = (own / "index").stat().st_mtime_ns
        (mirror / "index").write_bytes(files.read(own / "index", _MOST_INDEX))
        os.utime(mirror / "index", ns=(written, written))
        where = ("-C", str(root), f"--work-tree={root}", "-c", "core.bare=false", "-c", "core.fsmonitor=false")
        run_git = partial(git, *where, folder=mirror, environ=environ, timeout=_GIT_TIMEOUT_S)
        below = "" if folder == root else f"{folder.relative_to(root).as_posix()}/"
        # Mode, ID, stage and path of each file.
        tracked = run_git("ls-files", "--stage", "-z").split("\0")
        if not any(line.partition("\t")[2].startswith(below) for line in tracked[:-1]):
            return Checkout()
        dirty = bool(run_git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all").strip())
        if any(line.startswith("160000 ") for line in tracked):
            # In a submodule git would run its configured programs.
            return Checkout(commit=commit, dirty=dirty or None)
        if not dirty:
            return Checkout(commit=commit, dirty=False)
        run_git("add", "--update")
        return Checkout(commit=commit, dirty=True, changes=run_git("write-tree").strip())


def _text(path: Path) -> str:
    return files.read(path, _MOST_TEXT).decode("utf-8").strip()
