"""Names and labels of containers, and how users refer to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from reprokit.container.settings import ContainerSettings, from_label
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host.workspace import mark
from reprokit.recipe import find as recipes
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_file
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
class ContainerOrigin:
    """The workspace and recipe file of a container: real paths, "" if unknown."""

    workspace: str
    recipe_file: str

    @classmethod
    def of(cls, engine: Engine, target: Target) -> ContainerOrigin:
        """Raises UsageError if the workspace is behind a link."""
        return cls(engine.host.workspace_path(target), str(target.path))

    def made(self, settings: ContainerSettings) -> bool:
        """Whether a container with these settings has this origin."""
        return self == ContainerOrigin(settings.workspace, settings.recipe_file)


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

    @property
    def has_processes(self) -> bool:
        """Whether commands may run in it, also while it is paused or restarts."""
        return self.state in ("running", "paused", "restarting")

    @property
    def usual(self) -> bool:
        """Whether the container has the default name."""
        origin = ContainerOrigin(self.settings.workspace, self.settings.recipe_file)
        return self.name == container_name(self.recipe, self.variant, origin, self.owner)


def container_name(recipe: str, variant: str, origin: ContainerOrigin, uid: int) -> str:
    """The default name of a recipe's container, different for each checkout and user."""
    of = mark(recipe, variant, origin.workspace, origin.recipe_file, str(uid))
    return f"{prefix(recipe, variant)}-{of}"


def prefix(recipe: str, variant: str) -> str:
    """The beginning of the names of a variant's containers."""
    return f"reprokit-{recipe}-{variant}"


def kept_name(engine: Engine, name: str) -> str:
    """An unused name for a container that was replaced and keeps its changed files."""
    return next(kept for n in count(1) if engine.container(kept := f"{name}.old-{n}") is None)


def before_kept(name: str) -> str:
    """The name that a container had before it got a `kept_name`; other names are returned unchanged."""
    return re.sub(r"\.old-[0-9]+$", "", name)


def known_containers(engine: Engine) -> list[RecipeContainer]:
    """All containers that reprokit made, sorted by name.

    Containers inherit labels of images, so only one that has an owner, and whose label repeats its present or earlier
    name, counts.
    """
    containers = []
    for info in engine.containers([NAME]):
        name, labels = info.name, info.labels
        if labels.get(NAME) in (name, before_kept(name)) and re.fullmatch("[0-9]{1,10}", labels.get(OWNER, "")):
            recipe, variant, image = labels.get(RECIPE, "?"), labels.get(VARIANT, "?"), labels.get(IMAGE, "")
            owner, settings = int(labels[OWNER]), settings_of(labels)
            state, created = info.state or "unknown", int(info.created)
            containers.append(RecipeContainer(name, recipe, variant, image, owner, state, created, settings))
    return sorted(containers, key=lambda container: container.name)


def of_purposes(containers: Iterable[RecipeContainer], container: RecipeContainer) -> list[RecipeContainer]:
    """The containers for benchmarks, searches etc. beside a recipe's default container; none for another container."""

    def identity(c: RecipeContainer) -> tuple[object, ...]:
        return c.owner, c.label, c.settings.workspace, c.settings.recipe_file

    beside = [c for c in containers if identity(c) == identity(container) and c.name.startswith(f"{container.name}-")]
    return beside if container.usual else []


def checkout(settings: ContainerSettings) -> str:
    """The checkout of a container, for display: the parent of its `recipes` folder, else its workspace."""
    folder, _, inside = settings.recipe_file.rpartition("/recipes/")
    return folder if folder and "/" not in inside else settings.recipe_file or settings.workspace or "unknown"


def target_of(container: RecipeContainer) -> Target | None:
    """The target of a container, from its own checkout; None if unknown or missing."""
    try:
        file = Path(container.settings.recipe_file)
        target = Target(load_file(file), container.variant, file)
    except UsageError:
        return None
    return target if container.variant in target.recipe.variants else None


def command_user(engine: Engine, container: str) -> str:
    """The default user of a container's commands: `uid:gid`, or "" for the container's own user."""
    info = engine.container(container)
    return info.labels.get(USER, "") if info else ""


def label_of(labels: Mapping[str, str]) -> str:
    """The `recipe:variant` in a container's labels."""
    return f"{labels.get(RECIPE)}:{labels.get(VARIANT)}"


def settings_of(labels: Mapping[str, str]) -> ContainerSettings:
    """The settings in a container's labels; the defaults if they are missing or unreadable."""
    try:
        return from_label(labels.get(SETTINGS, "{}"))
    except (ValueError, json.JSONDecodeError):  # made by another version of reprokit
        return ContainerSettings()


def chosen(engine: Engine, texts: Iterable[str]) -> list[RecipeContainer]:
    """The caller's containers of these names. Raises UsageError, as `find`, before any is returned."""
    containers, uid = known_containers(engine), engine.host.caller().uid
    return [find(containers, recipes.plain(text), uid, *origin_here(engine, text)) for text in texts]


def origin_here(engine: Engine, text: str) -> tuple[ContainerOrigin | None, str]:
    """The origin of a recipe's containers in the current folder, and its default variant; None without a recipe."""
    if not recipes.is_recipe(text):
        return None, ""
    name, _ = recipes.split(text)
    try:
        target = recipes.target(name)
        return ContainerOrigin.of(engine, target), target.variant_name
    except UsageError:  # the recipe is broken, or its workspace behind a link
        return ContainerOrigin("", str(recipes.recipe_file(name))), ""


def find(
    containers: Iterable[RecipeContainer], text: str, uid: int, origin: ContainerOrigin | None = None, default: str = ""
) -> RecipeContainer:
    """The caller's container named `text`, or that of the recipe or `recipe:variant` of this name.

    `origin` is that of the recipe in the current folder: containers of another checkout are then chosen by their own
    names only. Of several variants, the only running one is chosen, else `default`. Raises UsageError if there is none
    or no such choice; it says if the only match belongs to another user.
    """
    everyone = list(containers)
    own = [c for c in everyone if c.owner == uid]
    for container in own:
        if container.name == text:
            return container
    named = [c for c in own if text in (c.recipe, c.label)]
    if named and origin is not None:
        elsewhere, named = named, [c for c in named if origin.made(c.settings)]
        if not named:
            others = ", ".join(f"{c.name} ({c.state}) is of {checkout(c.settings)}" for c in elsewhere)
            raise UsageError(
                f"no container of {text!r} belongs to this checkout: {others}",
                hint=f"to use another checkout's, give its name: {elsewhere[0].name}",
            )
    usual = [c for c in named if c.usual]
    running, of_default = [c for c in usual if c.running], [c for c in usual if c.variant == default]
    for choice in (usual, running, of_default, named):
        if len(choice) == 1:
            return choice[0]
    if named:
        raise UsageError(
            f"{text!r} has {len(named)} containers", hint=f"give one of {', '.join(c.name for c in named)}"
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
