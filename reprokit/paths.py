"""The folders and files of reprokit. A folder is created by the code that writes into it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import platformdirs

from reprokit.errors import EngineError, UsageError

_USER_DATA = ("workspaces", "recipes")


def data_root() -> Path:
    """The folder that holds `recipes/`, `images/` and `workspaces/`: inside an installed package, or the checkout."""
    packaged = Path(__file__).parent / "data"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent


def expanded(text: str) -> Path:
    """A path that the user wrote, where `~` is a home folder. Raises UsageError for the home of an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(f"there is no home folder {text.partition('/')[0]}", text, "write the whole path") from None


def from_here(place: str) -> str:
    """An absolute path, perhaps with `:LINE`, as one from the current folder if it is below that."""
    return place.removeprefix(f"{Path.cwd()}/")


def home() -> Path:
    """`$REPROKIT_HOME`, else the user's cache folder: the store, and files that can be made again."""
    chosen = os.environ.get("REPROKIT_HOME")
    return expanded(chosen).absolute() if chosen else Path(platformdirs.user_cache_dir("reprokit"))


def state() -> Path:
    """Logs and build records: `$REPROKIT_HOME/state`, else the user's state folder."""
    return home() / "state" if os.environ.get("REPROKIT_HOME") else Path(platformdirs.user_state_dir("reprokit"))


def data() -> Path:
    """What cannot be made again: `$REPROKIT_HOME`, else the user's data folder."""
    return home() if os.environ.get("REPROKIT_HOME") else Path(platformdirs.user_data_dir("reprokit"))


def workspaces() -> Path:
    """The folder for workspaces that are in no checkout and below no root of the user's."""
    return _user_data("workspaces")


def _user_data(name: str) -> Path:
    """A folder in `data()`. Where `move_user_data` has not moved it, it is in the cache."""
    folder, earlier = data() / name, home() / name
    return earlier if earlier.is_dir() and not earlier.is_symlink() and not os.path.lexists(folder) else folder


def move_user_data(notify: Callable[[str], None]) -> None:
    """Move folders that earlier versions had in the cache to `data()`, unless that is another disk."""
    for name in _USER_DATA if data() != home() else ():
        folder, earlier = data() / name, home() / name
        try:
            if _user_data(name) != earlier:
                continue
            private(folder.parent)
            earlier.rename(folder)
            earlier.symlink_to(folder)  # containers of earlier versions mount it by that path
        except (OSError, EngineError):
            continue
        notify(f"moved {earlier} out of the cache, to {folder}")


def is_ours(path: Path) -> bool:
    """Whether the path lies in `home()`, `data()` or `state()`, or these below it."""
    return any(path.is_relative_to(root) or root.is_relative_to(path) for root in (home(), data(), state()))


def private(folder: Path, shared: bool = False) -> Path:
    """Create the folder if missing and close it to other users. Raises EngineError where it belongs to another user.

    With `shared` it may belong to another user, and its group may read it if the owner chose so.
    """
    if state() in folder.parents:
        private(state())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.stat()
    mode = stat.S_IMODE(info.st_mode)
    if info.st_uid != os.geteuid():
        if not shared or mode & 0o002:
            raise EngineError("the folder belongs to another user", str(folder), "remove it, or set REPROKIT_HOME")
    elif mode & (others := 0o027 if shared and not mode & 0o007 else 0o077):
        folder.chmod(mode & ~others)
    return folder


def config_file() -> Path:
    """The user's configuration: `$REPROKIT_CONFIG`, else `config.yaml` below the platform's configuration folder."""
    chosen = os.environ.get("REPROKIT_CONFIG")
    return expanded(chosen) if chosen else Path(platformdirs.user_config_dir("reprokit")) / "config.yaml"


def recipe_dirs() -> list[Path]:
    """The folders that are searched for recipes; the first match wins.

    `./recipes`, those of `$REPROKIT_RECIPES`, reprokit's own, and the recipes that came with bundles. Raises UsageError
    where the variable names no folder.
    """
    folders = [Path.cwd() / "recipes", *_named("REPROKIT_RECIPES"), data_root() / "recipes", carried_recipes()]
    found: list[Path] = []
    for folder in folders:
        if folder.is_dir() and folder.resolve() not in found:
            found.append(folder.resolve())
    return found


def block_dirs() -> list[Path]:
    """The folders of `$REPROKIT_BLOCKS`, for blocks of the user's own. Raises UsageError where one does not exist."""
    return _named("REPROKIT_BLOCKS")


def _named(variable: str) -> list[Path]:
    folders = [expanded(p) for p in os.environ.get(variable, "").split(os.pathsep) if p]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{variable} names no folder", str(folder), "create it, or correct the variable")
    return folders


def carried_recipes() -> Path:
    """The folder for recipes that `load` found in bundles and in no other folder."""
    return _user_data("recipes")


def bundled_workspace(name: str) -> Path | None:
    """The sources of a workspace that is part of reprokit."""
    folder = data_root() / "workspaces" / name
    return folder if folder.is_dir() else None
