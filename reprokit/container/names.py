"""Names and labels of containers, and how users refer to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reprokit.container.settings import ContainerSettings, from_label
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.recipe.spelling import nearest

# Labels of a container. Images carry others, which their containers inherit.
NAME = "reprokit.container"
RECIPE = "reprokit.recipe"
VARIANT = "reprokit.variant"
IMAGE = "reprokit.image"
OWNER = "reprokit.owner"
USER = "reprokit.user"
SETTINGS = "reprokit.settings"


@dataclass(frozen=True)
class RecipeContainer:
    """`image` is the id of the image it was created from, `created` a Unix time."""

    name: str
    recipe: str
    variant: str
    image: str
    owner: int
    state: str
    created: int
    settings: ContainerSettings

    @property
    def label(self) -> str:
        return f"{self.recipe}:{self.variant}"

    @property
    def running(self) -> bool:
        return self.state == "running"


def image_reference(target: Target) -> str:
    return f"reprokit/{target.recipe.name}:{target.variant_name}"


def container_name(recipe: str, variant: str) -> str:
    """The name of a recipe's container where none is chosen."""
    return f"reprokit-{recipe}-{variant}"


def known_containers(engine: Engine) -> list[RecipeContainer]:
    """All containers that reprokit made, sorted by name.

    Containers inherit labels of images, so only one whose label repeats its own name counts.
    """
    found = [known(c["Labels"], c) for c in engine.containers([NAME]) if c["Labels"][NAME] == c["Names"][0].lstrip("/")]
    return sorted(found, key=lambda k: k.name)


def known(labels: Mapping[str, str], listed: Mapping[str, Any]) -> RecipeContainer:
    """One entry of the engine's list of containers."""
    return RecipeContainer(
        name=listed["Names"][0].lstrip("/"),
        recipe=labels.get(RECIPE, "?"),
        variant=labels.get(VARIANT, "?"),
        image=labels.get(IMAGE, ""),
        owner=int(labels.get(OWNER, "-1")),
        state=listed.get("State", "unknown"),
        created=int(listed.get("Created", 0)),
        settings=settings_of(labels),
    )


def command_user(engine: Engine, container: str) -> str:
    """The default user of a container's commands: `uid:gid`, or "" for the container's own user."""
    config = (engine.container(container) or {}).get("Config") or {}
    return str((config.get("Labels") or {}).get(USER, ""))


def settings_of(labels: Mapping[str, str]) -> ContainerSettings:
    try:
        return from_label(labels.get(SETTINGS, "{}"))
    except (ValueError, json.JSONDecodeError):  # made by another version of reprokit
        return ContainerSettings()


def find(containers: Iterable[RecipeContainer], text: str, uid: int) -> RecipeContainer:
    """The caller's container named `text`, or that of the recipe or `recipe:variant` of this name.

    Raises UsageError where there is none or more than one; it says where the only match belongs to another user.
    """
    everyone = list(containers)
    own = [c for c in everyone if c.owner == uid]
    for container in own:
        if container.name == text:
            return container
    named = [c for c in own if text in (c.recipe, c.label)]
    usual = [c for c in named if c.name.startswith(container_name(c.recipe, c.variant))]
    choice = usual if len(usual) == 1 else named
    if len(choice) == 1:
        return choice[0]
    if choice:
        raise UsageError(
            f"{text!r} has {len(choice)} containers", hint=f"give one of {', '.join(c.name for c in choice)}"
        )
    if any(text in (c.name, c.recipe, c.label) for c in everyone):
        raise UsageError(
            f"the container of {text!r} belongs to another user", hint="`reprokit run` makes one of your own"
        )
    names = {c.name for c in own} | {c.label for c in own} | {c.recipe for c in own}
    raise UsageError(
        f"no container {text!r}{nearest(text, sorted(names))}",
        hint="`reprokit ps` lists them; `reprokit run` makes them",
    )
