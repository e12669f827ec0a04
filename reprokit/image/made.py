"""The images that reprokit made on engines, by image ID: only these may `reprokit clean` remove.

Labels and names do not count: anyone can give them to an image.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image import trust
from reprokit.image.entries import EntryList, engine_name, full_id, now
from reprokit.recipe.find import Target

Role = Literal["image", "step", "failed", "base", "stage", "snapshot"]
# The builder's output names images by the first 12 digits.
_SHORT = 12


@dataclass(frozen=True)
class MadeEntry:
    """`owner` is the `recipe:variant` or the container that it was made for, `recipe` that recipe's file.

    Steps of one build have the same `build`; a step that later builds use has that of the last one.
    """

    id: str
    role: Role
    owner: str
    engine: str
    time: str
    recipe: str = ""
    build: str = ""


_LIST = EntryList("made.json", MadeEntry, "images that reprokit made")


def entries(engine: Engine) -> dict[str, MadeEntry]:
    """The images that reprokit made on this engine, by ID. Raises EngineError if they cannot be read.

    Earlier versions recorded the images of builds only as built here.
    """
    name = engine_name(engine)
    found = {
        entry.id: MadeEntry(entry.id, "image", "", name, entry.time)
        for entry in trust.entries().values()
        if entry.state == "built here" and entry.engine == name
    }
    return found | {entry.id: entry for entry in _LIST.read().values() if entry.engine == name}


def record(engine: Engine, image_id: str, role: Role, owner: str) -> None:
    """Record one image that was just made. Raises EngineError."""
    with _LIST.changing(engine) as found:
        found[full_id(image_id)] = MadeEntry(full_id(image_id), role, owner, engine_name(engine), now())


@dataclass(frozen=True)
class BuildSteps:
    """What a builder named as its steps. A step's own output can name others, so `record` believes none of it.

    `states` are IDs or their beginnings; `started` is the Unix time of the build's start.
    """

    target: Target
    base_id: str
    states: Collection[str]
    started: float

    def record(self, engine: Engine, image_id: str = "") -> None:
        """Record the build's image and its steps: those that reprokit made earlier, and new ones on the same base."""
        build = f"{time.time_ns()}"
        named = {state[:_SHORT] for state in self.states}
        listed = {full_id(image["Id"]): image for image in engine.images([], steps=True)}
        parents = {one: full_id(image["ParentId"]) for one, image in listed.items() if image.get("ParentId")}
        with _LIST.changing(engine) as found:
            for one, image in listed.items():
                if one == full_id(image_id):
                    role: Role = "image"
                elif one.removeprefix("sha256:")[:_SHORT] not in named:
                    continue
                elif one in found:
                    role = found[one].role
                elif image["Created"] >= int(self.started) and full_id(self.base_id) in above(one, parents):
                    role = "step"
                else:
                    continue
                entry = found.get(one) or MadeEntry(one, role, "", engine_name(engine), now())
                path = str(self.target.path.absolute())
                found[one] = replace(entry, role=role, owner=self.target.label, time=now(), recipe=path, build=build)

    def drop(self, engine: Engine) -> None:
        """Remove the recorded steps of this build, as far as no image needs them, so that no later build uses them."""
        named = {state[:_SHORT] for state in self.states}
        with suppress(ReprokitError):
            known = entries(engine)
            listed = {full_id(image["Id"]): image for image in engine.images([], steps=True)}
            parents = {one: full_id(image["ParentId"]) for one, image in listed.items() if image.get("ParentId")}
            mine = [
                one
                for one, image in listed.items()
                if one.removeprefix("sha256:")[:_SHORT] in named
                and image["Created"] >= int(self.started)
                and one in known
                and known[one].role == "step"
            ]
            for one in sorted(mine, key=lambda one: len([*above(one, parents)]), reverse=True):
                with suppress(ReprokitError):
                    engine.remove_image(one)


def above(image_id: str, parents: dict[str, str]) -> Iterable[str]:
    """The images that this one was built on, nearest first; `parents` has the ID of each image's own."""
    while image_id := parents.get(image_id, ""):
        yield image_id


def drop_replaced(engine: Engine) -> None:
    """Remove images of recipes that lost their name to a newer build, and what only they need."""
    known = {one for one, entry in entries(engine).items() if entry.role == "image"}
    for image in engine.images([]):
        if full_id(image["Id"]) in known and not names_of(image):
            with suppress(ReprokitError):  # a container or another image needs it
                engine.remove_image(image["Id"])


def names_of(image: dict) -> list[str]:
    """The names of an image in the engine's list."""
    return [name for name in image.get("RepoTags") or () if name != "<none>:<none>"]
