"""Where reprokit keeps and finds things. Every folder is made by whoever writes into it."""

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
    """`$REPROKIT_HOME`, else the user's cache folder: the store and what can be made again."""
    chosen = os.environ.get("REPROKIT_HOME")
    return Path(chosen).expanduser().absolute() if chosen else Path(platformdirs.user_cache_dir("reprokit"))


def state() -> Path:
    """Logs and build records: `$REPROKIT_HOME/state`, else the user's state folder."""
    return home() / "state" if os.environ.get("REPROKIT_HOME") else Path(platformdirs.user_state_dir("reprokit"))


def private(folder: Path, shared: bool = False) -> Path:
    """This folder of ours, made if need be, which no other user can enter. Raises EngineError where it is another's.

    With `shared` its group may read it, where its owner chose so, and it may be another user's.
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
    """Folders that are searched for recipes, first match wins.

    Where the user stands, `$REPROKIT_RECIPES`, ours, those that came with bundles.
    """
    chosen = os.environ.get("REPROKIT_RECIPES", "")
    places = [Path.cwd() / "recipes", *(Path(p).expanduser() for p in chosen.split(os.pathsep) if p)]
    places += [data_root() / "recipes", carried_recipes()]
    found: list[Path] = []
    for place in places:
        if place.is_dir() and place.resolve() not in found:
            found.append(place.resolve())
    return found


def carried_recipes() -> Path:
    """Where `load` puts recipes that no other folder has."""
    return home() / "recipes"


def bundled_workspace(name: str) -> Path | None:
    """The sources of a workspace that comes with reprokit."""
    folder = data_root() / "workspaces" / name
    return folder if folder.is_dir() else None
