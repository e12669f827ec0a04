"""Git commits, each with its submodules, fetched by the host's git."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, Moved, Tools

if TYPE_CHECKING:
    from reprokit.recipe.model import Variant
    from reprokit.supply.lock.model import GitCommit, VariantLock


class Git(Kind):
    def asked(self, request: InputRequest) -> list[Any]:
        return [[source.git, source.commit, source.submodules] for source in request.variant.sources]

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        return {source.name for source in variant.sources}

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.git.resolve import lock_git

        found: set[GitCommit] = set()
        for source in request.variant.sources:
            found |= set(lock_git(source, tools.store, tools.say, tools.mirrors))
        return {"git": tuple(sorted(found, key=lambda c: (c.url, c.commit)))}

    def moved(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[Moved]:
        from reprokit.supply.kinds.git.resolve import moved_git

        return moved_git(request.variant.sources, lock.git, tools.mirrors, tools.say)

    def fetch(self, entries: Sequence[GitCommit], tools: Any, offline: bool) -> int:
        from reprokit.supply.kinds.git.fetch import fetch_git

        return fetch_git(entries, tools.store, tools.mirrors, tools.say, offline)

    def server(self, entries: Sequence[GitCommit]) -> InputServer:
        from reprokit.supply.kinds.git.serve import Repositories

        return Repositories(entries)


KIND = Git("git", "git commits", always=True)
