"""What the shell offers after a verb. Never raises and never talks: a broken recipe offers nothing."""

from __future__ import annotations

from reprokit.errors import ReprokitError


def targets(incomplete: str) -> list[str]:
    """`NAME` and, once its colon is typed, `NAME:VARIANT`; historic variants once their own name is begun."""
    from reprokit.recipe import find

    name, colon, begun = incomplete.partition(":")
    try:
        variants = find.targets(name) if colon else []
        found = [t.label for t in variants if begun or not t.variant.historic] if colon else find.recipe_names()
    except ReprokitError:
        return []
    return [f for f in found if f.startswith(incomplete)]


def containers(incomplete: str) -> list[str]:
    """Names of reprokit's containers."""
    from reprokit.engine import Engine

    try:
        found = Engine.connect().containers(["reprokit.container"])
    except ReprokitError:
        return []
    names = [n.removeprefix("/") for c in found for n in c.get("Names") or []]
    return [n for n in names if n.startswith(incomplete)]


def published(incomplete: str) -> list[str]:
    """Recipes after the registry that is typed already."""
    registry, slash, begun = incomplete.rpartition("/")
    return [f"{registry}/{name}" for name in targets(begun)] if slash else []


def nodes(incomplete: str) -> list[str]:
    """Nodes that the user's configuration or ssh's names."""
    from reprokit.nodes import config

    try:
        return [name for name in config.known_names() if name.startswith(incomplete)]
    except ReprokitError:
        return []


def images_and_nodes(incomplete: str) -> list[str]:
    """What `send` takes."""
    return [*targets(incomplete), *nodes(incomplete)]


def bundles(incomplete: str) -> list[str]:
    """Folders, and files called as bundles are."""
    from pathlib import Path

    folder, slash, begun = incomplete.rpartition("/")
    try:
        there = sorted(Path(folder + slash or ".").iterdir())
    except OSError:
        return []
    return [
        f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in there
        if path.name.startswith(begun) and (path.suffix == ".rkit" or path.is_dir()) and not path.name.startswith(".")
    ]
