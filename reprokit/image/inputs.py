"""The resolved inputs of a build, and one hash of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reprokit.image.base.resolve import BaseImage
from reprokit.image.render import Rendered
from reprokit.image.request import request_of
from reprokit.recipe.find import Target
from reprokit.supply.kinds import all_kinds
from reprokit.supply.lock.model import VariantLock
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
        return key_of({"dockerfile": self.rendered.digest, "base": self.base.image_id, **self.served.listed})

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments that the Dockerfile declares."""
        return {name: value for name, value in self.served.arguments().items() if self.rendered.declares(name)}


def resolve_inputs(target: Target, rendered: Rendered, base: BaseImage, mirrors: Mirrors) -> Inputs:
    """Resolve and fetch the inputs of a variant without a lock; earlier results of the day need no network."""
    entries = {
        kind.name: kind.unlocked(request_of(target, rendered, base.architecture), mirrors)
        for kind in all_kinds()
        if kind.always and (rendered.sets[kind.name] or any(map(rendered.declares, kind.other_servers(()))))
    }
    return Inputs(rendered, base, ServedSet(rendered.sets, **entries))
