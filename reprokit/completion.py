"""Shell completion of arguments. It never raises or prints: a broken recipe completes to nothing."""

from __future__ import annotations

from collections.abc import Callable

import typer

from reprokit.errors import ReprokitError


def targets(incomplete: str) -> list[str]:
    """`NAME`; after a colon `NAME:VARIANT`, historic variants only from their first letter on."""
    from reprokit.recipe import find

    name, colon, prefix = incomplete.partition(":")
    try:
        variants = find.targets(name) if colon else []
        labels = [t.label for t in variants if prefix or not t.variant.historic] if colon else find.recipe_names()
    except ReprokitError:
        return []
    return [f for f in labels if f.startswith(incomplete)]


def benchmarks(ctx: typer.Context, incomplete: str) -> list[str]:
    """The benchmarks of the target on the command line."""
    from reprokit.recipe import find

    try:
        target = find.target(ctx.params.get("name") or "")
    except ReprokitError:
        return []
    return [name for name in target.recipe.benchmarks_of(target.variant_name) if name.startswith(incomplete)]


def containers(incomplete: str) -> list[str]:
    """Names of reprokit's containers."""
    from reprokit.engine import Engine

    try:
        listed = Engine.connect().containers(["reprokit.container"])
    except ReprokitError:
        return []
    return [container.name for container in listed if container.name.startswith(incomplete)]


def published(incomplete: str) -> list[str]:
    """Recipes, after a registry and a slash."""
    registry, slash, prefix = incomplete.rpartition("/")
    return [f"{registry}/{name}" for name in targets(prefix)] if slash else []


def nodes(incomplete: str) -> list[str]:
    """Nodes from the configurations of reprokit and ssh."""
    from reprokit.nodes import config

    try:
        return [name for name in config.known_names() if name.startswith(incomplete)]
    except ReprokitError:
        return []


def images_and_nodes(incomplete: str) -> list[str]:
    """The arguments of `send`."""
    return [*targets(incomplete), *nodes(incomplete)]


def choices(*values: str) -> Callable[[str], list[str]]:
    """Complete an option with these values; it may accept others."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def files(incomplete: str) -> list[str]:
    """Folders and files."""
    return _entries(incomplete, "")


def bundles(incomplete: str) -> list[str]:
    """Folders and bundles."""
    return _entries(incomplete, ".rkit")


def _entries(incomplete: str, suffix: str) -> list[str]:
    from pathlib import Path

    folder, slash, prefix = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").expanduser().iterdir())
    except (OSError, RuntimeError):
        return []
    return [
        f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in entries
        if path.name.startswith(prefix)
        and (path.name.endswith(suffix) or path.is_dir())
        and path.name.startswith(".") <= prefix.startswith(".")
        and path.name.isprintable()
    ]
