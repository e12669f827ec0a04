"""The resolved inputs of a build, and one hash of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from reprokit.image.base.resolve import BaseImage
from reprokit.image.render import Rendered
from reprokit.image.request import request_of
from reprokit.recipe.find import Target
from reprokit.supply.kinds.git.resolve import lock_commits
from reprokit.supply.kinds.wheels import requests_of
from reprokit.supply.kinds.wheels.resolve import merged, resolve_wheels, wheels_within_facts
from reprokit.supply.lock.model import Distribution, GitCommit, VariantLock
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import key_of


@dataclass(frozen=True)
class Inputs:
    """The Dockerfile, the base, and the files that the gateway serves.

    A `lock` names all of them; `drift` lists the replacements of locked packages that no mirror has any more.
    """

    rendered: Rendered
    base: BaseImage
    served: ServedSet
    lock: VariantLock | None = None
    drift: tuple[str, ...] = ()

    @cached_property
    def hash(self) -> str:
        """64 hex digits."""
        if self.lock:
            return self.rendered.locked_hash(self.lock)
        return key_of(
            {
                "dockerfile": self.rendered.digest,
                "base": self.base.image_id,
                "wheels": sorted([w.file, w.sha256] for w in self.served.of("wheels")),
                "commits": sorted([c.url, c.commit] for c in self.served.of("git")),
            }
        )

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments that the Dockerfile declares."""
        return {name: value for name, value in self.served.arguments().items() if self.rendered.declares(name)}


def resolve_inputs(target: Target, rendered: Rendered, base: BaseImage, mirrors: Mirrors) -> Inputs:
    """Resolve and fetch the inputs of a variant without a lock; earlier results of the day need no network."""
    wheels: tuple[Distribution, ...] = ()
    commits: tuple[GitCommit, ...] = ()
    if rendered.sets["wheels"]:
        requests = requests_of(request_of(target, rendered, base.architecture))
        resolve = partial(resolve_wheels, mirrors=mirrors)
        sets = {block: wheels_within_facts(target.variant, r, resolve) for block, r in requests.items()}
        wheels = merged(sets)
    if rendered.declares("REPROKIT_GIT") or rendered.declares("REPROKIT_ARCHIVES"):
        commits = lock_commits(target.variant.sources, target.requirements, {}, mirrors)
    return Inputs(rendered, base, ServedSet(rendered.sets, wheels=wheels, git=commits))
