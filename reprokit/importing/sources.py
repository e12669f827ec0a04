"""Where a repository comes from: a folder of this machine, or a git address whose commit is fetched into the store."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from reprokit.errors import UsageError
from reprokit.importing.requirement_facts import is_version
from reprokit.importing.tree import CommitTree, FolderTree, Tree
from reprokit.recipe.fields import GitUrl
from reprokit.redact import redact
from reprokit.supply.guard import git_environment
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure, unread
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.mirrors.places import Mirrors


def opened(source: str, commit: str, mirrors: Mirrors) -> Tree:
    """The files of SOURCE at a commit, tag or branch; its default branch if empty. Raises UsageError, SourceError."""
    if "://" not in source:
        if commit:
            hint = "give the address of its repository as --from, or check the commit out"
            raise UsageError("a folder is read as it is; --commit is for git addresses", source, hint)
        host, colon, path = source.rpartition("@")[2].partition(":")
        if "@" in source and colon and not Path(source).exists():
            raise UsageError(f"{source!r} is an address for ssh", "--from", f"write it as https://{host}/{path}")
        return FolderTree(Path(source))
    try:
        address = TypeAdapter(GitUrl).validate_python(source)
    except ValueError:
        shown = redact(source)
        raise UsageError(f"{shown!r} is not an https:// address of a git repository", "--from") from None
    found = Commit(address, commit if _is_full(commit) else _resolved(address, commit or "HEAD", mirrors))
    ensure([found], mirrors)
    return CommitTree(folder_of(found, mirrors.store), address, found.commit, _release(commit))


def _release(tag: str) -> str:
    """The version that a tag such as `v1.2` names."""
    number = tag.removeprefix("v")
    return number if "." in number and is_version(number) else ""


def _is_full(commit: str) -> bool:
    return len(commit) == 40 and set(commit) <= set("0123456789abcdef")


def _resolved(address: str, name: str, mirrors: Mirrors) -> str:
    """The commit of a branch, a tag or HEAD."""
    if name.startswith("-"):
        raise UsageError(f"{name!r} is not a branch, tag or commit", "--commit")
    for place in mirrors.git(address):
        try:
            with git_environment(place, mirrors) as environ:
                lines = git("ls-remote", "--", place, name, f"{name}^{{}}", environ=environ).splitlines()
        except GitFailed as error:
            failure = error
            continue
        refs = {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}
        for ref in (f"refs/tags/{name}^{{}}", f"refs/tags/{name}", f"refs/heads/{name}", name):
            if ref in refs:
                return refs[ref]
        hint = "--commit takes a branch, a tag or a full commit of 40 digits"
        raise UsageError(f"the repository has no branch or tag {name!r}", address, hint)
    raise unread(failure, address, f"the repository cannot be read: {failure}")
