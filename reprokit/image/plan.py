"""What both builders are given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reprokit.image.render import Rendered


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
        return {"BASE": base} if re.search(r"^ARG BASE\b", self.rendered.dockerfile, re.MULTILINE) else {}
