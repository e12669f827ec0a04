"""Lock the commit of a source and those of its submodules at all depths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from reprokit.errors import SourceError, UsageError
from reprokit.recipe.fields import GitRequirement, git_requirement
from reprokit.recipe.model import Source
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure, git_environment, unread
from reprokit.supply.kinds.git.store import check_count, submodules_of, tree_of
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store, key_of
from reprokit.untrusted.documents import understood

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors

T = TypeVar("T")
_AT_ONCE = 8


def lock_git(source: Source, mirrors: Mirrors) -> tuple[GitCommit, ...]:
    """Fetch a source's commit and its submodules into the store; return the commit first, then these by address.

    A commit never changes, so the answer for a source is remembered. Raises SourceError if a fetch fails, UsageError
    if a submodule's address is not https://, or a listed path has no submodule.
    """
    key = key_of([source.git, source.commit, source.submodules])
    entries = mirrors.store.remembered("git", key)
    if entries is None:
        entries = [locked.model_dump() for locked in _resolved(source, mirrors)]
        mirrors.store.remember("git", key, entries)
    commits = tuple(GitCommit.model_validate(entry) for entry in entries)
    ensure([locked.address for locked in commits], mirrors)
    return commits


def lock_commits(
    sources: Sequence[Source], requirements: Sequence[str], refs: Mapping[tuple[str, str], str], mirrors: Mirrors
) -> tuple[GitCommit, ...]:
    """The commits of sources and of requirements at git addresses, sorted. `refs` are as for `commit_of`.

    Raises SourceError and UsageError as `lock_git`.
    """
    commits: set[GitCommit] = set()
    for source in sources:
        commits |= set(lock_git(source, mirrors))
    for project in filter(None, map(git_requirement, requirements)):
        commit = commit_of(project, refs, mirrors)
        source = Source(name="requirement", git=project.git, commit=commit, path="/", submodules=True)
        top, *inner = lock_git(source, mirrors)
        commits |= {top.model_copy(update={"ref": "" if project.commit else project.ref}), *inner}
    return tuple(sorted(commits, key=lambda c: (c.url, c.commit, c.ref)))


def commit_of(project: GitRequirement, refs: Mapping[tuple[str, str], str], mirrors: Mirrors) -> str:
    """The commit of a requirement: its own, that of `refs` (by address and name), or the present one of its ref.

    Raises SourceError if the repository does not answer or has no such tag or branch.
    """
    if locked := project.commit or refs.get((project.git, project.ref)):
        return locked
    failed: GitFailed | None = None
    for address in mirrors.git(project.git):
        try:
            answer = _refs_of(address, project.ref, mirrors)
        except GitFailed as error:
            failed = error
            continue
        if commit := _commit_in(answer, project.ref):
            return commit
    if failed is None:
        hint = "write all 40 digits of a commit, or a tag"
        raise SourceError(f"it has no tag or branch {project.ref!r}", project.git, hint)
    raise unread(failed, project.git)


def _refs_of(address: str, ref: str, mirrors: Mirrors) -> dict[str, str]:
    with git_environment(address, mirrors) as environ:
        names = (f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}")
        lines = git("ls-remote", "--", address, *names, environ=environ).splitlines()
    return {name: commit for commit, _, name in (line.partition("\t") for line in lines)}


def _commit_in(refs: Mapping[str, str], ref: str) -> str:
    """The commit of an annotated tag, a tag or a branch; empty if there is none."""
    names = (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    return next((refs[name] for name in names if name in refs), "")


def _resolved(source: Source, mirrors: Mirrors) -> list[GitCommit]:
    top, store = Commit(source.git, source.commit), mirrors.store
    if isinstance(source.submodules, list):
        seen = _at_paths(source, top, mirrors)
    else:
        seen = set()
        level = {top}
        while level:
            ensure(sorted(level), mirrors)
            seen |= level
            check_count(len(seen), source.git)
            inner = {s for commit in level for s in submodules_of(commit, store).values()}
            level = inner - seen if source.submodules else set()
    return [_locked(commit, store) for commit in (top, *sorted(seen - {top}))]


def _at_paths(source: Source, top: Commit, mirrors: Mirrors) -> set[Commit]:
    """The source's commit, and the submodules that it lists. One inside another is listed after it."""
    by_path = {"": top}
    for path in sorted(source.submodules if isinstance(source.submodules, list) else ()):
        around = max((p for p in by_path if not p or path.startswith(f"{p}/")), key=len)
        inside = path.removeprefix(f"{around}/")
        ensure([by_path[around]], mirrors)
        submodules = submodules_of(by_path[around], mirrors.store, inside)
        if inside not in submodules:
            raise UsageError(
                f"{by_path[around].name} has no submodule at {inside!r} in commit {by_path[around].commit[:12]}",
                f"source {source.name}",
                "its file .gitmodules lists them; a submodule inside another one needs that one listed too",
            )
        by_path[path] = submodules[inside]
    ensure(sorted(set(by_path.values())), mirrors)
    return set(by_path.values())


def _locked(commit: Commit, store: Store) -> GitCommit:
    with understood("a submodule", commit.url):
        return GitCommit(url=commit.url, commit=commit.commit, tree=tree_of(commit, store))


def changed_commits(sources: Sequence[Source], locked: Sequence[GitCommit], mirrors: Mirrors) -> list[UpstreamChange]:
    """Commits that their repositories no longer have, and refs of the recipe that point elsewhere now, sorted.

    Requests go to the repositories themselves, and to mirrors of those that do not answer.
    """

    named = [source for source in sources if source.ref.strip()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        refs = pool.map(lambda source: _moved_ref(source, mirrors), named)
        commits = pool.map(lambda commit: _vanished(commit, mirrors), dict.fromkeys(locked))
        return sorted(change for change in (*refs, *commits) if change)


def _moved_ref(source: Source, mirrors: Mirrors) -> UpstreamChange | None:
    """How the branch or tag of the recipe's commit has changed."""
    name = f"{source.name} {source.ref}"
    try:
        refs = _of_upstream(source.git, mirrors, lambda address: _refs_of(address, source.ref, mirrors))
    except GitFailed as error:
        return UpstreamChange("git", name, source.commit, str(error), "unknown")
    now = _commit_in(refs, source.ref)
    if now == source.commit:
        return None
    if not now:
        return UpstreamChange("git", name, source.commit, "", "vanished")
    return UpstreamChange("git", name, source.commit, now, "changed" if f"refs/tags/{source.ref}" in refs else "newer")


def _vanished(locked: GitCommit, mirrors: Mirrors) -> UpstreamChange | None:
    """Check that the repository still has the commit, without fetching its files."""

    def has_commit(address: str) -> bool:
        with TemporaryDirectory(prefix="reprokit-git-") as folder, git_environment(address, mirrors) as environ:
            git("init", "--quiet", "--bare", folder)
            options = ("--no-tags", "--no-write-fetch-head", "--depth=1", "--filter=tree:0")
            try:
                git("fetch", "--quiet", *options, address, locked.commit, folder=Path(folder), environ=environ)
            except GitFailed as error:
                # A mirror may lack a commit that the repository has.
                if address == locked.url and "not our ref" in str(error):
                    return False
                raise
        return True

    try:
        exists = _of_upstream(locked.url, mirrors, has_commit)
    except GitFailed as error:
        return UpstreamChange("git", locked.address.name, locked.commit, str(error), "unknown")
    return None if exists else UpstreamChange("git", locked.address.name, locked.commit, "", "vanished")


def _of_upstream(url: str, mirrors: Mirrors, ask: Callable[[str], T]) -> T:
    """The answer of the repository itself, or of its first mirror that answers. Raises the repository's GitFailed."""
    try:
        return ask(url)
    except GitFailed:
        for address in mirrors.git(url):
            if address != url:
                with suppress(GitFailed):
                    return ask(address)
        raise
