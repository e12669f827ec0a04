"""What both builders are given, and the events of a build, for displays and logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reprokit.image.render import Rendered
from reprokit.supply.fetch.progress import Progress


@dataclass(frozen=True)
class Note:
    """A sentence about the build as a whole."""

    text: str


@dataclass(frozen=True)
class BuildStep:
    """An instruction begins. `number` counts from 1 to `total`; `block` is the block that it belongs to."""

    number: int
    total: int
    block: str
    text: str


@dataclass(frozen=True)
class Cached:
    """The last step came from the layer cache."""


@dataclass(frozen=True)
class OutputLine:
    """One line of output, without its newline."""

    line: str


@dataclass(frozen=True)
class Built:
    """The end of a build that succeeded."""

    image_id: str


@dataclass(frozen=True)
class Failed:
    """The end of a build that failed: the builder's message, and the ID of the last good state's image, or ''."""

    block: str
    step: str
    message: str
    last_good: str = ""


Event = Note | BuildStep | Cached | OutputLine | Built | Failed | Progress


@dataclass(frozen=True)
class BuildPlan:
    """A build: the Dockerfile, the image's name, and what it is built with.

    `proxies` are the predefined arguments that lead to the gateway; they contain its password. `base_id` and
    `base_name` are the same image: the classic builder takes IDs, BuildKit only names. `network` is the engine's name
    for it.
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

    def base_argument(self, base: str) -> dict[str, str]:
        """The argument that replaces the recipe's base by this image, if the Dockerfile declares it."""
        return {"BASE": base} if self.rendered.declares("BASE") else {}
