"""Git sources: fetched by the host's own git, at exactly the commits that a build needs, submodules included.

Every commit has a bare repository of its own below the store. It is made aside and renamed into place, so that a
killed fetch leaves nothing that looks complete, and readers need no lock.
"""

from __future__ import annotations

import posixpath
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from reprokit.errors import SourceError, UsageError
from reprokit.supply.gitcommand import GitFailed, git, git_with_progress
from reprokit.supply.store import Store, key_of

_ATTEMPTS = 4
_FOR_GOOD = (
    "not found",
    "does not exist",
    "not appear to be a git",
    "Authentication failed",
    "could not read Username",
)


@dataclass(frozen=True, order=True)
class Commit:
    """A commit of the repository at an https:// address without `.git`."""

    url: str
    commit: str

    @property
    def name(self) -> str:
        """`host/owner/repository`."""
        return self.url.partition("://")[2]


def folder_of(commit: Commit, store: Store) -> Path:
    return store.root / "git" / commit.name / f"{commit.commit}.git"


def fetch_all(
    url: str, commit: str, submodules: bool, store: Store, say: Callable[[str], None] = lambda line: None
) -> tuple[Commit, ...]:
    """The commit and, if asked for, its submodules at all depths, each of them in the store afterwards.

    Asks no network for what is there. Raises SourceError where a fetch fails, UsageError where a submodule's address
    is not https://.
    """
    top = Commit(url, commit)
    key = key_of([url, commit, submodules])
    known = store.remembered("git", key)
    if known is not None:
        found = tuple(Commit(*pair) for pair in known)
        if all(folder_of(c, store).is_dir() for c in found):
            return found
    seen: set[Commit] = set()
    queue = [top]
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        _ensure(current, store, say)
        if submodules:
            queue += _submodules(current, store)
    found = (top, *sorted(seen - {top}))
    store.remember("git", key, [[c.url, c.commit] for c in found])
    return found


def _ensure(commit: Commit, store: Store, say: Callable[[str], None]) -> None:
    published = folder_of(commit, store)
    if published.is_dir():
        return
    published.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(published.with_suffix(".lock")):
        if published.is_dir():
            return
        for attempt in range(_ATTEMPTS):
            with store.scratch() as scratch:
                try:
                    _fetch(commit, Path(scratch) / "repository", say)
                    (Path(scratch) / "repository").replace(published)
                    return
                except GitFailed as error:
                    if attempt == _ATTEMPTS - 1 or any(words in str(error) for words in _FOR_GOOD):
                        raise _explained(error, commit) from None
                    say(f"{commit.name}: {error}; trying again in {2**attempt} s")
            time.sleep(2**attempt)


def _fetch(commit: Commit, folder: Path, say: Callable[[str], None]) -> None:
    git("init", "--quiet", "--bare", str(folder))
    into = f"+{commit.commit}:refs/heads/reprokit"
    say(f"fetching {commit.name} at {commit.commit[:12]}")
    options = ["fetch", "--no-tags", "--no-write-fetch-head", "--progress"]
    try:
        git_with_progress(folder, [*options, "--depth=1", commit.url, into], say)
    except GitFailed as error:
        if not error.refused_by_commit:
            raise
        say(f"{commit.name}: the server gives no single commits; fetching its whole history")
        git_with_progress(folder, [*options, commit.url, "+refs/*:refs/remotes/all/*"], say)
        if not has_commit(folder, commit.commit):
            raise GitFailed(f"no branch or tag of the repository holds {commit.commit}: not found") from None
        git("update-ref", "refs/heads/reprokit", commit.commit, folder=folder)
    git("symbolic-ref", "HEAD", "refs/heads/reprokit", folder=folder)
    shutil.rmtree(folder / "hooks", ignore_errors=True)


def has_commit(folder: Path, commit: str) -> bool:
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}", folder=folder)
    except GitFailed:
        return False
    return True


def _submodules(commit: Commit, store: Store) -> list[Commit]:
    folder = folder_of(commit, store)
    try:
        git("cat-file", "-e", f"{commit.commit}:.gitmodules", folder=folder)
    except GitFailed:
        return []
    blob = f"--blob={commit.commit}:.gitmodules"
    entries = git("config", blob, "-z", "--get-regexp", r"^submodule\..*\.(path|url)$", folder=folder)
    fields: dict[str, dict[str, str]] = {}
    for line in filter(None, entries.split("\0")):
        key, _, value = line.partition("\n")
        name, _, field = key.removeprefix("submodule.").rpartition(".")
        fields.setdefault(name, {})[field] = value
    found = []
    for name, entry in sorted(fields.items()):
        pinned = _gitlink(folder, commit.commit, entry.get("path", ""))
        if pinned and "url" in entry:
            found.append(Commit(submodule_url(commit.url, name, entry["url"]), pinned))
    return found


def _gitlink(folder: Path, commit: str, path: str) -> str | None:
    """The commit that the tree has at `path`, None where it has no submodule there."""
    if not path:
        return None
    for line in filter(None, git("ls-tree", "-z", commit, "--", path, folder=folder).split("\0")):
        meta, _, name = line.partition("\t")
        mode, _, sha = meta.split(" ")
        if mode == "160000" and name == path:
            return sha
    return None


def submodule_url(parent: str, name: str, url: str) -> str:
    """A submodule's address, relative ones (`../x`) resolved against its parent's. Raises UsageError."""
    if url.startswith(("./", "../")):
        scheme, _, rest = parent.partition("://")
        host, _, path = rest.partition("/")
        joined = posixpath.normpath(posixpath.join("/" + path, url))
        url = f"{scheme}://{host}{joined}"
    from pydantic import TypeAdapter

    from reprokit.recipe.fields import GitUrl

    try:
        return TypeAdapter(GitUrl).validate_python(url)
    except ValueError:
        raise UsageError(
            f"the submodule {name!r} of {parent} is at {url!r}, which is not an https:// address",
            hint="only https:// submodules are fetched; `submodules: false` leaves them out",
        ) from None


def _explained(error: GitFailed, commit: Commit) -> SourceError:
    text = str(error)
    if "refused" in text or "resolve host" in text or "unable to access" in text:
        hint = "is the network there? git's own settings (proxies, url.insteadOf) are honoured"
    elif any(words in text for words in _FOR_GOOD):
        hint = "check the source's `git` and `commit` in the recipe"
    else:
        hint = "`git fetch` of that commit by hand shows more"
    return SourceError(f"git could not fetch {commit.commit[:12]}: {text}", commit.url, hint)


def serving_repository(commits: list[Commit], store: Store, folder: Path) -> None:
    """A bare repository that offers exactly these commits of one repository, borrowing the objects of the store."""
    git("init", "--quiet", "--bare", str(folder))
    sources = [folder_of(c, store) for c in commits]
    (folder / "objects" / "info" / "alternates").write_text("".join(f"{s / 'objects'}\n" for s in sources))
    shallow = sorted({line for s in sources for line in _lines(s / "shallow")})
    if shallow:
        (folder / "shallow").write_text("".join(f"{line}\n" for line in shallow))
    heads = folder / "refs" / "heads"
    for number, commit in enumerate(commits):
        (heads / f"reprokit-{number}").write_text(f"{commit.commit}\n")
    (folder / "HEAD").write_text("ref: refs/heads/reprokit-0\n")


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
