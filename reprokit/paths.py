"""The folders and files of reprokit. A folder is created by the code that writes into it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs

from reprokit.errors import EngineError


def data_root() -> Path:
    """The folder that holds `recipes/`, `images/` and `workspaces/`: inside an installed package, or the checkout."""
    packaged = Path(__file__).parent / "data"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent


def home() -> Path:
    """`$REPROKIT_HOME`, else the user's cache folder: the store, and files that can be made again."""
    chosen = os.environ.get("REPROKIT_HOME")
    return Path(chosen).expanduser().absolute() if chosen else Path(platformdirs.user_cache_dir("reprokit"))


def state() -> Path:
    """Logs and build records: `$REPROKIT_HOME/state`, else the user's state folder."""
    return home() / "state" if os.environ.get("REPROKIT_HOME") else Path(platformdirs.user_state_dir("reprokit"))


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
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_config_dir("reprokit")) / "config.yaml"


def recipe_dirs() -> list[Path]:
    """The folders that are searched for recipes; the first match wins.

    `./recipes`, those of `$REPROKIT_RECIPES`, reprokit's own, and the recipes that came with bundles.
    """
    chosen = os.environ.get("REPROKIT_RECIPES", "")
    folders = [Path.cwd() / "recipes", *(Path(p).expanduser() for p in chosen.split(os.pathsep) if p)]
    folders += [data_root() / "recipes", carried_recipes()]
    found: list[Path] = []
    for folder in folders:
        if folder.is_dir() and folder.resolve() not in found:
            found.append(folder.resolve())
    return found


def carried_recipes() -> Path:
    """The folder for recipes that `load` found in bundles and in no other folder."""
    return home() / "recipes"


def bundled_workspace(name: str) -> Path | None:
    """The sources of a workspace that is part of reprokit."""
    folder = data_root() / "workspaces" / name
    return folder if folder.is_dir() else None
