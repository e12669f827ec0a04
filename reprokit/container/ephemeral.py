"""A container that is gone when its one command ends: for the last good state of a build that failed.

As in the build, its command is root's and there is no workspace: root could leave anything in it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace

from reprokit.container import names, parse
from reprokit.container.launch import Start, launch, removed_at_end
from reprokit.container.lifecycle import check_options
from reprokit.container.session import in_container, tell
from reprokit.container.settings import RunOptions, Settings, merge
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.labels import failed_name
from reprokit.recipe.find import target


def in_failed_build(recipe: str, argv: Sequence[str], chosen: RunOptions, env: list[str]) -> int:
    """Run `argv` as root, as the build did, on what `build --keep-failed` left; its exit code."""
    wanted = target(recipe)
    given = parse.environment(env, os.environ)
    engine = Engine.connect()
    check_options(engine, chosen, tell)
    reference = failed_name(wanted.label)
    image = engine.image(reference)
    if image is None:
        raise UsageError(
            f"no failed build of {wanted.label} is kept", hint=f"reprokit build --keep-failed {wanted.label}"
        )
    name = (
        chosen.name or f"{names.container_name(wanted.recipe.name, wanted.variant_name)}-failed-{secrets.token_hex(3)}"
    )
    start = Start(
        name=name,
        recipe=wanted.recipe.name,
        variant=wanted.variant_name,
        workdir=(image.get("Config") or {}).get("WorkingDir") or "/",
        image=image["Id"],
        built=image["Id"],
        env={},
    )
    settings = merge(Settings(shm=wanted.variant.shm, root=True), replace(chosen, name=None))
    launch(engine, start, settings, False, tell)
    with removed_at_end(engine, name):
        return in_container(engine, name, argv, given, "0:0", logged=False, tty=True)
