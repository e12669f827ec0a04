"""Workspaces in a bundle: packed as a tar, and unpacked without trusting it.

A workspace is unpacked file by file into a new folder beside its final path, and renamed when it is complete. An
existing one is not changed. Links are made last, when their targets can be checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import zstandard

from reprokit import consent, paths
from reprokit.bundle.model import Part, part_path
from reprokit.bundle.read import Bundle, Reader, blocks, refuse
from reprokit.bundle.recipes import home
from reprokit.bundle.resumable_tar import ResumableTar
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.formatting import size as in_words
from reprokit.host import workspace
from reprokit.host.disk import require_space
from reprokit.oci.compress import Hashed
from reprokit.recipe.find import recipe_files, target
from reprokit.untrusted.files import Folder, pack
from reprokit.untrusted.limits import DEPTH, WORKSPACE_BYTES, WORKSPACE_ENTRIES, check_unpacked
from reprokit.untrusted.tar import Stream, members

_LEVEL = 3
# A link that takes more steps than this to resolve is refused, as the kernel refuses loops.
_MOST_STEPS = 256
_LONGEST_PATH = 4096  # of Linux
_SHOWN_LINKS = 10
# Characters of all names and link targets, which are in memory until the links are made.
_MOST_NAMES = 16 << 20


def workspace_of(recipe: str) -> tuple[str, Path]:
    """Name and folder of a recipe's workspace. Raises UsageError if it does not exist."""
    named = target(recipe)
    name, folder = named.workspace, workspace.locate(named.workspace, named.path)
    if not folder.is_dir():
        raise UsageError(f"{recipe} has no workspace yet", str(folder), "leave out --with-workspace")
    return name, folder


def add_workspace(tar: ResumableTar, recipe: str) -> Part:
    """Add the workspace of a recipe, without owners. Raises UsageError if there is none."""
    name, folder = workspace_of(recipe)
    path, hashed = part_path("workspace", name), Hashed(tar.write)
    with tar.begin():
        packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(hashed, closefd=False)  # type: ignore[arg-type]
        with packer, tarfile.open(fileobj=packer, mode="w|", format=tarfile.PAX_FORMAT) as inner:
            pack(folder, inner, workspace.is_cache)
        tar.finish(path, hashed.size)
    return Part(kind="workspace", name=name, path=path, digest=hashed.digest, size=hashed.size)


@contextlib.contextmanager
def workspaces(bundle: Bundle, yes: bool) -> Iterator[Callable[[], list[str]]]:
    """Unpack the workspaces; calling the result moves them to their final paths and returns lines about them.

    Raises UsageError if one is not a tar of regular files, folders and links, or if they are large without `yes`.
    """
    new: dict[Path, Part] = {}
    for part in bundle.metadata.parts:
        if part.kind != "workspace":
            continue
        if os.path.lexists(place := _place(bundle, part.name)):
            notify(f"the workspace {part.name} exists already ({place}); the bundle's is not unpacked")
        else:
            new[place] = part
    yes = yes or _allowed(bundle, new)
    with contextlib.ExitStack() as stack:
        staged: dict[Path, Path] = {}
        total = _Total(yes)
        for place, part in new.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{part.name}.", dir=place.parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            _unpack(bundle, part, folder, total)
            folder.chmod(0o755)
            staged[place] = folder

        def put() -> list[str]:
            lines = []
            for place, folder in staged.items():
                if os.path.lexists(place):
                    why = f"was made meanwhile ({place}); the bundle's is not unpacked"
                else:
                    folder.rename(place)
                    why = f"is in {place}"
                lines.append(f"the workspace {new[place].name} {why}")
            return lines

        yield put


def _place(bundle: Bundle, name: str) -> Path:
    """The workspace folder of the recipe: the local recipe, or the one that `load` writes."""
    recipes = [image.recipe for image in bundle.metadata.images if image.recipe]
    recipe = next((recipe for recipe in recipes if recipe.replace("-", "_") == name.replace("-", "_")), name)
    beside = any(file.recipe == recipe for file in bundle.metadata.beside)
    new = home(paths.carried_recipes().resolve(), recipe, beside) / f"{recipe}.yaml"
    return workspace.locate(name, recipe_files().get(recipe, new))


class _TooMuch(Exception):
    """A workspace is too large to be unpacked without consent."""


@dataclass
class _Total:
    """The entries and bytes so far. Raises _TooMuch beyond the limits, unless `unbounded`."""

    unbounded: bool = False
    entries: int = 0
    size: int = 0

    def add(self, member: tarfile.TarInfo) -> None:
        self.entries += 1
        self.size += member.size
        if not self.unbounded and (self.entries > WORKSPACE_ENTRIES or self.size > WORKSPACE_BYTES):
            raise _TooMuch


def _allowed(bundle: Bundle, new: Mapping[Path, Part]) -> bool:
    """Whether the user agreed to large workspaces, counted before anything is written. Raises UsageError."""
    total = _Total()
    try:
        for part in new.values():
            for _ in _members(bundle, part, total):
                pass
    except _TooMuch:
        most = f"{WORKSPACE_ENTRIES} files or {in_words(WORKSPACE_BYTES)}"
        consent.require(f"the bundle's workspaces have more than {most}", "--yes", False, bundle.where)
        return True
    return False


def _members(bundle: Bundle, part: Part, total: _Total) -> Iterator[tuple[Stream, tarfile.TarInfo]]:
    """The entries of a workspace's tar. Raises UsageError if it is damaged or has changed, _TooMuch."""
    raw = Reader(bundle, bundle.members[part.path], part.digest)
    stream = Stream(blocks(raw))
    names = 0
    try:
        for member in members(stream, bundle.where):
            total.add(member)
            names += len(member.name) + len(member.linkname)
            if names > _MOST_NAMES:
                raise tarfile.ReadError("the names are too long")
            DEPTH.check(member.name.count("/"), "folders inside each other", bundle.where)
            yield stream, member
        raw.finish()
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        refuse(f"{part.path} is not a tar of a workspace: {error}", bundle.where)


def _unpack(bundle: Bundle, part: Part, target: Path, total: _Total) -> None:
    folders: set[PurePosixPath] = {PurePosixPath()}
    links: dict[str, str] = {}
    try:
        with Folder(target) as folder:
            for stream, member in _members(bundle, part, total):
                name = PurePosixPath(member.name)
                what = f"{part.path}: {member.name!r}"
                if name.is_absolute() or ".." in name.parts or name in folders or str(name) in links:
                    refuse(f"{what} cannot be a path in a workspace", bundle.where)
                if name.parent not in folders:
                    # Every parent of an entry was made here as a folder, never as a link.
                    refuse(f"{what} has no folder in the workspace", bundle.where)
                if member.isdir():
                    folder.mkdir(str(name))
                    folders.add(name)
                elif member.issym():
                    links[str(name)] = member.linkname
                elif member.isreg():
                    check_unpacked(member.size, bundle.members[part.path].size, bundle.where)
                    require_space(member.size, target)
                    _write(stream, member, folder, str(name))
                else:
                    refuse(f"{what} is not a file, folder or link", bundle.where)
            _link(folder, links, part)
    except _TooMuch:
        refuse(f"{part.path} was changed since it was verified", bundle.where)
    except (FileExistsError, UnicodeEncodeError) as error:
        refuse(f"{part.path} is not a tar of a workspace: {error}", bundle.where)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        refuse(f"{part.path} has a name that is too long", bundle.where)


def _link(folder: Folder, links: Mapping[str, str], part: Part) -> None:
    excluded = [name for name in links if not _stays(name, links)]
    for name in excluded[:_SHOWN_LINKS]:
        notify(f"{part.name}: the link {name!r} leads out of the workspace ({links[name]!r}) and is excluded")
    if len(excluded) > _SHOWN_LINKS:
        notify(f"{part.name}: {len(excluded) - _SHOWN_LINKS} more links that lead out are excluded")
    for name in links.keys() - excluded:
        folder.link(name, links[name])


def _stays(name: str, links: Mapping[str, str]) -> bool:
    """Whether a link of the complete workspace stays inside it after all links on the way are resolved."""
    at = list(PurePosixPath(name).parts[:-1])
    left = [name.rpartition("/")[2]]
    for taken in range(_MOST_STEPS):
        if not left:
            return True
        if taken + len(left) > _MOST_STEPS:  # each part takes a step
            return False
        step = left.pop()
        if step == "..":
            if not at:
                return False
            at.pop()
        elif step not in ("", "."):
            at.append(step)
            path = "/".join(at)
            if len(path) > _LONGEST_PATH:
                return False
            if (target := links.get(path)) is not None:
                if not target or target.startswith("/"):
                    return False
                at.pop()
                left += reversed(target.split("/"))
    return False


def _write(stream: Stream, member: tarfile.TarInfo, folder: Folder, name: str) -> None:
    with os.fdopen(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as out:
        for block in stream.body(member.size):
            out.write(block)
        os.fchmod(out.fileno(), member.mode & 0o755 | 0o600)
