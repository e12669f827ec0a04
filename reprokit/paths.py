"""Where reprokit keeps and finds things. Every folder is made by whoever writes into it."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


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
    """The sources of a workspace that comes with reprokit: those where the user stands win over the package's."""
    for root in (Path.cwd(), data_root()):
        if (root / "workspaces" / name).is_dir():
            return root / "workspaces" / name
    return None


def workspace(name: str) -> Path:
    """The host folder that containers see as their workspace: `./workspaces/NAME` if there, else below `home()`."""
    here = Path.cwd() / "workspaces" / name
    return here if here.is_dir() else home() / "workspaces" / name
