"""Lock the commit of a source and those of its submodules at all depths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reprokit.recipe.model import Source
from reprokit.supply.guard import git_environment
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.git.store import Commit, submodules_of, tree_of
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.store import Store, key_of
from reprokit.untrusted.documents import understood

if TYPE_CHECKING:
    from reprokit.supply.mirrors.places import Mirrors

_AT_ONCE = 8


def lock_git(source: Source, store: Store, say: Callable[[str], None], places: Mirrors) -> tuple[GitCommit, ...]:
    """Fetch a source's commit and its submodules into the store; return the commit first, then these by address.

    A commit never changes, so the answer for a source is remembered. Raises SourceError where a fetch fails, UsageError
    where a submodule's address is not https://.
    """
    key = key_of([source.git, source.commit, source.submodules])
    known = store.remembered("git", key)
    if known is None:
        known = [locked.model_dump() for locked in _resolved(source, store, say, places)]
        store.remember("git", key, known)
    found = tuple(GitCommit.model_validate(entry) for entry in known)
    ensure([Commit(locked.url, locked.commit) for locked in found], store, places, say)
    return found


def _resolved(source: Source, store: Store, say: Callable[[str], None], places: Mirrors) -> list[GitCommit]:
    top = Commit(source.git, source.commit)
    seen: set[Commit] = set()
    level = {top}
    while level:
        ensure(sorted(level), store, places, say)
        seen |= level
        level = {s for commit in level for s in submodules_of(commit, store)} - seen if source.submodules else set()
    return [_locked(commit, store) for commit in (top, *sorted(seen - {top}))]


def _locked(commit: Commit, store: Store) -> GitCommit:
    with understood("a submodule", commit.url):
        return GitCommit(url=commit.url, commit=commit.commit, tree=tree_of(commit, store))


def moved_git(
    sources: Sequence[Source],
    locked: Sequence[GitCommit],
    places: Mirrors,
    say: Callable[[str], None] = lambda line: None,
) -> list[Moved]:
    """Commits that their repositories no longer have, and refs of the recipe that point elsewhere now, sorted.

    The repositories themselves are asked, not their mirrors. `say` gets a line for each that does not answer.
    """

    def asked(question: Callable[[], Moved | None]) -> Moved | None:
        try:
            return question()
        except GitFailed as error:
            say(f"git: {error}")
            return None

    questions = [lambda source=source: _moved_ref(source, places) for source in sources if source.ref.strip()]
    questions += [lambda commit=commit: _vanished(commit, places) for commit in _each(locked)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sorted(moved for moved in pool.map(asked, questions) if moved)


def _each(locked: Iterable[GitCommit]) -> list[GitCommit]:
    return list({(commit.url, commit.commit): commit for commit in locked}.values())


def _moved_ref(source: Source, places: Mirrors) -> Moved | None:
    """How the branch or tag of the recipe's commit has changed."""
    branch, tag = f"refs/heads/{source.ref}", f"refs/tags/{source.ref}"
    with git_environment(source.git, places) as environ:
        lines = git("ls-remote", source.git, branch, tag, f"{tag}^{{}}", environ=environ).splitlines()
    refs = {name: commit for commit, _, name in (line.partition("\t") for line in lines)}
    now = refs.get(f"{tag}^{{}}", refs.get(tag, refs.get(branch, "")))
    if now == source.commit:
        return None
    if not now:
        return Moved("git", f"{source.name} {source.ref}", source.commit, "", "vanished")
    return Moved("git", f"{source.name} {source.ref}", source.commit, now, "changed" if tag in refs else "newer")


def _vanished(locked: GitCommit, places: Mirrors) -> Moved | None:
    """Check that the repository still has the commit, without fetching its files."""
    with TemporaryDirectory(prefix="reprokit-git-") as folder, git_environment(locked.url, places) as environ:
        git("init", "--quiet", "--bare", folder)
        try:
            options = ("--no-tags", "--no-write-fetch-head", "--depth=1", "--filter=tree:0")
            git("fetch", "--quiet", *options, locked.url, locked.commit, folder=Path(folder), environ=environ)
        except GitFailed as error:
            if "not our ref" not in str(error):
                raise GitFailed(f"{locked.url}: {error}") from None
            return Moved("git", Commit(locked.url, locked.commit).name, locked.commit, "", "vanished")
    return None
