"""The two ways to build an image, and what both are given."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Protocol

from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.events import Event
from reprokit.image.render import Rendered

BUILDERS = ("classic", "buildkit")


@dataclass(frozen=True)
class Plan:
    """A build: the Dockerfile, what the image is called, and what it is built with.

    `proxies` are the predefined arguments that lead to the gateway; they hold its password. `base_id` and `base_name`
    are the same image: the classic builder takes ids, BuildKit only names. `network` is the engine's name of it.
    """

    name: str
    rendered: Rendered
    base_id: str
    base_name: str
    arguments: Mapping[str, str]
    proxies: Mapping[str, str]
    labels: Mapping[str, str]
    no_cache: bool = False
    network: str = "host"


def base_argument(plan: Plan, base: str) -> dict[str, str]:
    """The argument that puts the base in the place of the recipe's reference, where the Dockerfile has it."""
    return {"BASE": base} if re.search(r"^ARG BASE\b", plan.rendered.dockerfile, re.MULTILINE) else {}


class Builder(Protocol):
    """Runs a plan. Its events end in `Built` or `Failed`; closing them stops the build and leaves nothing running."""

    def run(self, plan: Plan) -> Generator[Event, None, None]: ...


def builder(name: str, engine: Engine) -> Builder:
    """The builder called `name`. Raises UsageError for another name, EngineError where it cannot be used here."""
    if name == "classic":
        from reprokit.image.classic import Classic

        return Classic(engine)
    if name == "buildkit":
        from reprokit.image.buildkit import BuildKit

        return BuildKit(engine)
    raise UsageError(f"unknown builder {name!r}", hint=f"builders: {', '.join(BUILDERS)}")
