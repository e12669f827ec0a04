"""The resolved inputs of a build, and one hash of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from reprokit.image.base.resolve import BaseImage
from reprokit.image.blocks import wheel_requirements
from reprokit.image.platform import platform_of
from reprokit.image.render import Rendered
from reprokit.recipe.find import Target
from reprokit.supply.kinds.git.resolve import lock_git
from reprokit.supply.kinds.wheels.resolve import resolve_wheels
from reprokit.supply.lock.model import Distribution, GitCommit, VariantLock
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store, key_of


@dataclass(frozen=True)
class Inputs:
    """The Dockerfile, the base, and the files that the gateway serves.

    With a `lock` it names all of them; `drift` lists what replaced locked packages that no mirror has any more.
    """

    rendered: Rendered
    base: BaseImage
    served: ServedSet
    lock: VariantLock | None = None
    drift: tuple[str, ...] = ()

    @cached_property
    def hash(self) -> str:
        """64 hex digits, the same for both builders."""
        if self.lock:
            return locked_hash(self.rendered, self.lock)
        return key_of(
            {
                "dockerfile": _sha256(self.rendered),
                "base": self.base.image_id,
                "wheels": sorted([w.file, w.sha256] for w in self.served.of("wheels")),
                "commits": sorted([c.url, c.commit] for c in self.served.of("git")),
            }
        )

    @property
    def described(self) -> str:
        """Number and size of the served inputs."""
        return self.served.described

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments that the Dockerfile declares."""
        return {name: value for name, value in self.served.arguments().items() if _declares(self.rendered, name)}


def locked_hash(rendered: Rendered, lock: VariantLock) -> str:
    """The hash of a locked variant, known before anything is fetched."""
    return key_of({"dockerfile": _sha256(rendered), "lock": lock.hash})


def resolve_inputs(
    target: Target, rendered: Rendered, base: BaseImage, store: Store, say: Callable[[str], None]
) -> Inputs:
    """Resolve and fetch the inputs of a variant without a lock; earlier results of the day need no network."""
    variant = target.variant
    mirrors = Mirrors(store, indexes=variant.wheel_indexes)
    found: tuple[Distribution, ...] = ()
    if _declares(rendered, "REPROKIT_WHEELS"):
        wanted, platform = wheel_requirements(target), platform_of(target, base.architecture)
        found = resolve_wheels(wanted, variant.sdists, platform, variant.wheel_indexes, mirrors, store, say)
    commits: set[GitCommit] = set()
    if _declares(rendered, "REPROKIT_GIT"):
        for source in variant.sources:
            commits |= set(lock_git(source, store, say, mirrors))
    return Inputs(rendered, base, ServedSet(wheels=found, git=sorted(commits, key=lambda c: (c.url, c.commit))))


def _sha256(rendered: Rendered) -> str:
    return hashlib.sha256(rendered.dockerfile.encode()).hexdigest()


def _declares(rendered: Rendered, argument: str) -> bool:
    return re.search(rf"^ARG {argument}\b", rendered.dockerfile, re.MULTILINE) is not None
