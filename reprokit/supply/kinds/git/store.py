"""Git commits in the store, repositories that serve them, and packs of their objects.

Every commit has its own bare repository in the store. It is written elsewhere and renamed, so that a killed fetch
leaves nothing that looks complete, and readers need no lock.
"""

from __future__ import annotations

import posixpath
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, urlsplit

from reprokit.errors import SourceError, UsageError
from reprokit.supply.kinds.git.command import GitFailed, git, run_git, seconds_for
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.untrusted.limits import SUBMODULES, check_unpacked

REPOSITORIES = "repositories"
# Messages of fsck on old but intact objects (`error in commit X: badTimezone: ...`), and notices.
_HARMLESS = ("error in ", "warning in ", "notice: ", "dangling ", "unreachable ")


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


def submodules_of(commit: Commit, store: Store, only: str = "") -> dict[str, Commit]:
    """The submodules of a commit in the store by path, or the one at `only`. Raises UsageError, see `submodule_url`."""
    folder = folder_of(commit, store)
    try:
        git("cat-file", "-e", f"{commit.commit}:.gitmodules", folder=folder)
    except GitFailed:
        return {}
    blob = f"--blob={commit.commit}:.gitmodules"
    # The file may be empty: repositories keep it after their last submodule is removed.
    entries = git("config", blob, "-z", "--list", folder=folder)
    fields: dict[str, dict[str, str]] = {}
    for line in filter(None, entries.split("\0")):
        key, _, value = line.partition("\n")
        section, _, name_and_field = key.partition(".")
        name, _, field = name_and_field.rpartition(".")
        if section == "submodule":
            fields.setdefault(name, {})[field] = value
    check_count(len(fields), commit.url)
    submodules = {}
    for name, entry in sorted(fields.items()):
        path = entry.get("path", "")
        if only in ("", path) and "url" in entry and (pinned := _gitlink(folder, commit.commit, path)):
            submodules[path] = Commit(submodule_url(commit.url, name, entry["url"]), pinned)
    return submodules


def check_count(count: int, where: str) -> None:
    """Raises UsageError for more submodules than a project has: a server can make up new ones for ever."""
    if count > SUBMODULES.most:
        hint = f"`submodules: [PATH, ...]` names those that are needed; {SUBMODULES.hint}"
        raise UsageError(f"more than {SUBMODULES.most} submodules", where, hint)


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
    """A submodule's absolute address; `../x` is relative to the parent's.

    Raises UsageError for other schemes than https, and for ssh unless the parent is on the same host over ssh: a
    stranger's repository must not name one that the user's keys open.
    """
    if url.startswith(("./", "../")):
        scheme, _, host_and_path = parent.partition("://")
        host, _, path = host_and_path.partition("/")
        joined = posixpath.normpath(posixpath.join("/" + path, url))
        url = f"{scheme}://{host}{joined}"
    from pydantic import TypeAdapter

    from reprokit.recipe.fields import GitUrl

    try:
        address = str(TypeAdapter(GitUrl).validate_python(url))
    except ValueError:
        address = ""
    if address.startswith("https://") or (address and urlsplit(address)[:2] == urlsplit(parent)[:2]):
        return address
    raise UsageError(
        f"the submodule {name!r} of {parent} is at {url!r}, which is not an https:// address",
        hint="only https:// submodules, and those on the host of an ssh:// source, are fetched; "
        "`submodules: [PATH, ...]` names those that are needed",
    )


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


def borrowing_repository(folder: Path, objects: Path) -> None:
    """Make a bare repository that reads the objects of another one, and nothing of its settings."""
    git("init", "--quiet", "--bare", str(folder))
    (folder / "objects" / "info" / "alternates").write_text(f"{objects}\n")


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def faults(folder: Path, commit: str) -> str:
    """The damage to the repository of a commit; empty if it is intact."""
    code, lines = run_git(folder, "fsck", "--full", "--no-dangling", "--no-progress", commit)
    wrong = [line for line in lines if not line.startswith(_HARMLESS)]
    if code and wrong:
        return wrong[0].removeprefix("error: ").removeprefix("fatal: ")
    return "" if has_commit(folder, commit) else "the commit is not in it"


def check_objects(folder: Path, where: str) -> None:
    """Raises UsageError for a packed repository whose objects are almost only repetition, such as zeros."""
    with tempfile.TemporaryFile() as sizes:
        run_git(folder, "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectsize)", target=sizes)
        sizes.seek(0)
        check_unpacked(sum(map(int, sizes)), packed_size(folder), where)


def packed_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "objects" / "pack").glob("*.pack"))


def pack(folder: Path, commit: Commit, target: Path) -> tuple[str, ...]:
    """Write all objects of a commit to `target`; returns the commits whose parents are not among them.

    The same repository gives the same bytes. Raises SourceError if an object is missing.
    """
    shallow = folder / "shallow"
    with tempfile.TemporaryFile() as requested, target.open("wb") as out:
        requested.write(f"{commit.commit}\n".encode())
        requested.seek(0)
        # One thread, because several threads find other deltas each time.
        options = ("--revs", "--stdout", "-q", "--threads=1", "--delta-base-offset")
        code, output = run_git(folder, "pack-objects", *options, source=requested, target=out)
    if code:
        raise SourceError(
            f"the repository of {commit.commit[:12]} is damaged in the store: {output[0] if output else 'git failed'}",
            commit.url,
            "`reprokit store verify --repair` removes it, `reprokit fetch` downloads it again",
        )
    return tuple(shallow.read_text().split()) if shallow.exists() else ()


def unpack(packed: Path, commit: Commit, shallow: tuple[str, ...], folder: Path) -> str:
    """Make a bare repository of the commit in `folder`; returns the fault of the pack, or "".

    A pack holds objects only: the configuration of a repository is never copied. Raises UsageError for a pack that
    unpacks to too much.
    """
    git("init", "--quiet", "--bare", str(folder))
    if shallow:
        (folder / "shallow").write_text("".join(f"{line}\n" for line in shallow))
    with packed.open("rb") as source:
        code, output = run_git(
            folder, "index-pack", "--stdin", source=source, seconds=seconds_for(packed.stat().st_size)
        )
    if code:
        return output[0] if output else "git could not read it"
    check_objects(folder, commit.url)
    (folder / "refs" / "heads" / "reprokit").write_text(f"{commit.commit}\n")
    (folder / "HEAD").write_text("ref: refs/heads/reprokit\n")
    shutil.rmtree(folder / "hooks", ignore_errors=True)
    return faults(folder, commit.commit)
