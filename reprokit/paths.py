"""The folders and files of reprokit. A folder is created by the code that writes into it."""

from __future__ import annotations

import grp
import os
import pwd
import secrets
import shlex
import stat
from functools import cache
from pathlib import Path

import platformdirs

from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.untrusted.files import Folder

_MOST_PARTS = 400  # of a path and of the links in it


def data_root() -> Path:
    """The folder that holds `recipes/`, `images/` and `workspaces/`: inside an installed package, or the checkout."""
    packaged = Path(__file__).parent / "data"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent


def expanded(text: str) -> Path:
    """A user's path with `~` expanded. Raises UsageError for the home of an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"there is no home folder {text.partition('/')[0]}", text, "write the whole path") from None


def from_here(place: str) -> str:
    """An absolute path, perhaps with `:LINE`, relative to the current folder if it is below."""
    return place.removeprefix(f"{Path.cwd()}/")


def home() -> Path:
    """`$REPROKIT_HOME`, else the user's cache folder: the store, and files that can be made again.

    Links are resolved, as in `state` and `data`. Raises EngineError if another user can change it.
    """
    chosen = os.environ.get("REPROKIT_HOME")
    return _resolved(expanded(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("reprokit")))


def state() -> Path:
    """Logs and build records: `$REPROKIT_HOME/state`, else the user's state folder."""
    if os.environ.get("REPROKIT_HOME"):
        return home() / "state"
    return _resolved(Path(platformdirs.user_state_dir("reprokit")))


def data() -> Path:
    """Files that cannot be made again: `$REPROKIT_HOME`, else the user's data folder."""
    return home() if os.environ.get("REPROKIT_HOME") else _resolved(Path(platformdirs.user_data_dir("reprokit")))


def _resolved(path: Path) -> Path:
    return _resolved_for(path, os.geteuid())


@cache
def _resolved_for(path: Path, user: int) -> Path:
    """The path with links resolved; missing parts stay.

    Raises EngineError if an unprivileged user other than `user` can change the folder, a parent or a link on the way.
    """
    folder, left = Path(path.anchor), list(path.parts[1:])
    _check_ours(folder, folder.lstat(), user, bool(left))
    for _ in range(_MOST_PARTS):
        if not left:
            return folder
        place = folder.parent if left[0] == ".." else folder / left[0]
        try:
            info = place.lstat()
        except OSError:  # missing or unreadable: opening it will raise the error
            return Path(os.path.normpath(folder.joinpath(*left)))
        left.pop(0)
        _check_ours(place, info, user, bool(left))
        if stat.S_ISLNK(info.st_mode):
            target = place.readlink()
            left = [*(target.parts[1:] if target.is_absolute() else target.parts), *left]
            folder = Path(path.anchor) if target.is_absolute() else folder
        else:
            folder = place
    raise UsageError("too many links in the path", str(path), "name a folder without links")


def _check_ours(path: Path, info: os.stat_result, user: int, is_parent: bool) -> None:
    """Raises EngineError if an unprivileged user other than `user` can change the entries of a folder."""
    if info.st_uid not in {user, *_privileged()}:
        raise EngineError("this belongs to another user", str(path), "set REPROKIT_HOME to a folder of your own")
    mode = info.st_mode
    # In a sticky folder such as /tmp, users can rename and remove only their own entries.
    if not stat.S_ISDIR(mode) or (is_parent and mode & stat.S_ISVTX):
        return
    if mode & 0o002 or (mode & 0o020 and _has_others(info.st_gid)):
        hint = f"`chmod go-w {shlex.quote(str(path))}`, or set REPROKIT_HOME to another folder"
        raise EngineError("other users can change what is in this folder", str(path), hint)


@cache
def _privileged() -> set[int]:
    """The numbers of root. In a user namespace, that of the machine has no number of its own."""
    try:
        if Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]:
            return {0}
        return {0, int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))}
    except (OSError, ValueError):
        return {0}


def _has_others(group: int) -> bool:
    """Whether a group has, or may have, members besides root and the user: many systems have a group for each user."""
    try:
        entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return group != 0
    return group != 0 and (entry.gr_name != user or any(member != user for member in entry.gr_mem))


def workspaces() -> Path:
    """The folder for workspaces outside checkouts and the user's roots."""
    return data() / "workspaces"


def is_ours(path: Path) -> bool:
    """Whether the path is in `home()`, `data()` or `state()`, or above one of them."""
    try:
        roots = (home(), data(), state())
    except ReprokitError:
        return False
    return any(path.is_relative_to(root) or root.is_relative_to(path) for root in roots)


def private(folder: Path, shared: bool = False) -> Path:
    """Create the folder if missing, and make it private.

    No link below `home`, `state` and `data` is followed. With `shared` the folder may be a link and may belong to
    another user, and its group may read it if the owner chose so. Raises EngineError if it belongs to another user,
    UsageError for a link.
    """
    if state() in folder.parents:
        private(state())
    place = folder.resolve() if shared else folder
    root = next((root for root in (home(), data(), state()) if place.is_relative_to(root)), place)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Folder(root) as opened, opened.folder(str(place.relative_to(root))) as inner:
        info = os.fstat(inner.fileno())
        mode = stat.S_IMODE(info.st_mode)
        if info.st_uid != os.geteuid():
            if not shared or mode & 0o002:
                raise EngineError("the folder belongs to another user", str(folder), "remove it, or set REPROKIT_HOME")
        elif mode & (others := 0o027 if shared and not mode & 0o007 else 0o077):
            os.fchmod(inner.fileno(), mode & ~others)
    return folder


def write_private(path: Path, data: bytes) -> None:
    """Write a file below `home`, `state` or `data` that only its owner can read. Raises OSError, EngineError."""
    new = private(path.parent) / f".{path.name}.{secrets.token_hex(8)}"
    try:
        # Output may hold secrets of its owner.
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def config_file() -> Path:
    """The user's configuration: `$REPROKIT_CONFIG`, else `config.yaml` below the platform's configuration folder."""
    chosen = os.environ.get("REPROKIT_CONFIG")
    return expanded(chosen) if chosen else Path(platformdirs.user_config_dir("reprokit")) / "config.yaml"


def recipe_dirs() -> list[Path]:
    """The folders that are searched for recipes; the first match wins.

    `./recipes`, those of `$REPROKIT_RECIPES`, reprokit's own, and the recipes from bundles. Raises UsageError
    if the variable names no folder.
    """
    folders = [Path.cwd() / "recipes", *_named("REPROKIT_RECIPES"), data_root() / "recipes", carried_recipes()]
    existing: list[Path] = []
    for folder in folders:
        if folder.is_dir() and folder.resolve() not in existing:
            existing.append(folder.resolve())
    return existing


def is_bundled(file: Path) -> bool:
    """Whether a recipe or lock is reprokit's own."""
    return file.parent.resolve() == (data_root() / "recipes").resolve()


def block_dirs() -> list[Path]:
    """The folders of `$REPROKIT_BLOCKS`, for blocks of the user's own. Raises UsageError if one does not exist."""
    return _named("REPROKIT_BLOCKS")


def _named(variable: str) -> list[Path]:
    folders = [expanded(p) for p in os.environ.get(variable, "").split(os.pathsep) if p]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{variable} names no folder", str(folder), "create it, or correct the variable")
    return folders


def carried_recipes() -> Path:
    """The folder for recipes from bundles that are in no other folder."""
    return data() / "recipes"


def bundled_workspace(name: str) -> Path | None:
    """The sources of a workspace that is part of reprokit."""
    folder = data_root() / "workspaces" / name
    return folder if folder.is_dir() else None
