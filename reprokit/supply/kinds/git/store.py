"""Git commits in the store, and repositories that serve them.

Every commit has its own bare repository in the store. It is written elsewhere and renamed, so that a killed fetch
leaves nothing that looks complete, and readers need no lock.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from reprokit.errors import UsageError
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.store import Store

REPOSITORIES = "repositories"


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
    """The commit's repository. The address is one quoted name, so that no repository is inside another."""
    return store.root / REPOSITORIES / quote(commit.name, safe="") / f"{commit.commit}.git"


def has_commit(folder: Path, commit: str) -> bool:
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}", folder=folder)
    except GitFailed:
        return False
    return True


def tree_of(commit: Commit, store: Store) -> str:
    """The id of the commit's tree."""
    return git("rev-parse", f"{commit.commit}^{{tree}}", folder=folder_of(commit, store)).strip()


def submodules_of(commit: Commit, store: Store) -> list[Commit]:
    """The submodules of a commit in the store. Raises UsageError, see `submodule_url`."""
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
    """The commit of the submodule at `path`, None if there is none."""
    if not path:
        return None
    for line in filter(None, git("ls-tree", "-z", commit, "--", path, folder=folder).split("\0")):
        meta, _, name = line.partition("\t")
        mode, _, sha = meta.split(" ")
        if mode == "160000" and name == path:
            return sha
    return None


def submodule_url(parent: str, name: str, url: str) -> str:
    """A submodule's absolute address; `../x` is relative to the parent's. Raises UsageError for other schemes."""
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
            hint="only https:// submodules are fetched; `submodules: false` skips them",
        ) from None


def serving_repository(commits: list[Commit], store: Store, folder: Path) -> None:
    """Make a bare repository with exactly these commits, which shares the objects of the store."""
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
