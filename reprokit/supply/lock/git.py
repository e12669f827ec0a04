"""The git commits of a source in its lock: its own, and those of its submodules at all depths."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.recipe.model import Source
from reprokit.supply.fetch.git import GitPlaces, ensure
from reprokit.supply.git import Commit, submodules_of, tree_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.store import Store, key_of


def lock_git(source: Source, store: Store, say: Callable[[str], None], places: GitPlaces) -> tuple[GitCommit, ...]:
    """The commit first, its submodules after it by address; all of them are in the store afterwards.

    What a commit holds never changes, so a source that was locked before is answered without git. Raises SourceError
    where a fetch fails, UsageError where a submodule's address is not https://.
    """
    key = key_of([source.git, source.commit, source.submodules])
    known = store.remembered("git", key)
    if known is None:
        known = [locked.model_dump() for locked in _resolved(source, store, say, places)]
        store.remember("git", key, known)
    found = tuple(GitCommit.model_validate(entry) for entry in known)
    ensure([Commit(locked.url, locked.commit) for locked in found], store, places, say)
    return found


def _resolved(source: Source, store: Store, say: Callable[[str], None], places: GitPlaces) -> list[GitCommit]:
    top = Commit(source.git, source.commit)
    seen: set[Commit] = set()
    level = {top}
    while level:
        ensure(sorted(level), store, places, say)
        seen |= level
        level = {s for commit in level for s in submodules_of(commit, store)} - seen if source.submodules else set()
    return [_locked(commit, store) for commit in (top, *sorted(seen - {top}))]


def _locked(commit: Commit, store: Store) -> GitCommit:
    return GitCommit(url=commit.url, commit=commit.commit, tree=tree_of(commit, store))
