"""All that decides what an image holds, resolved, and one hash over it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from reprokit.image.base import Base
from reprokit.image.blocks import wheel_requirements
from reprokit.image.platform import platform_of
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply import git, wheels
from reprokit.supply.offer import Offer
from reprokit.supply.store import Store, key_of
from reprokit.supply.wheels import WheelSet

@dataclass(frozen=True)
class Inputs:
    """What a variant is built from: the Dockerfile, the base, its wheels, and its git commits with their submodules."""

    rendered: Rendered
    base: Base
    wheels: WheelSet
    commits: tuple[git.Commit, ...]

    @cached_property
    def hash(self) -> str:
        """64 hex digits. The builder is no part of it: both give the same image."""
        return key_of(
            {
                "dockerfile": hashlib.sha256(self.rendered.dockerfile.encode()).hexdigest(),
                "base": self.base.image_id,
                "wheels": sorted([w.file, w.sha256] for w in self.wheels.wheels),
                "commits": sorted([c.url, c.commit] for c in self.commits),
            }
        )

    @property
    def described(self) -> str:
        """What the gateway serves, for people."""
        size = sum(w.size for w in self.wheels.wheels) / 1e6
        return f"{len(self.wheels.wheels)} wheels ({size:.0f} MB), {len(self.commits)} git commits"

    @property
    def offer(self) -> Offer:
        """What the gateway serves."""
        return Offer(self.wheels, self.commits)

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments that the Dockerfile declares."""
        return {name: value for name, value in self.offer.arguments().items() if _declares(self.rendered, name)}


def resolve_inputs(target: Target, rendered: Rendered, base: Base, store: Store, say: Callable[[str], None]) -> Inputs:
    """Resolve and fetch what the variant takes in, asking no network for what was resolved before."""
    found: WheelSet = WheelSet(())
    if _declares(rendered, "REPROKIT_WHEELS"):
        wanted, platform = wheel_requirements(target), platform_of(target, base.architecture)
        indexes = target.variant.wheel_indexes
        found = wheels.resolve(wanted, platform, indexes, store, say)
    commits: list[git.Commit] = []
    if _declares(rendered, "REPROKIT_GIT"):
        for source in target.variant.sources:
            commits += git.fetch_all(source.git, source.commit, source.submodules, store, say)
    return Inputs(rendered, base, found, tuple(sorted(set(commits))))


def _declares(rendered: Rendered, argument: str) -> bool:
    return re.search(rf"^ARG {argument}\b", rendered.dockerfile, re.MULTILINE) is not None
