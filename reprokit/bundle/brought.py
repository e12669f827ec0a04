"""What a bundle brings beside images: workspaces into their folders, inputs into the store.

A workspace is a tar of a stranger's: it is unpacked beside its place, file by file, into a folder that is new, and
takes its place by a rename. One that is here is left as it is. Links come last, when it is known where each leads.
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

from reprokit import consent
from reprokit.bundle.members import refuse
from reprokit.bundle.model import Part
from reprokit.bundle.read import Bundle
from reprokit.bundle.verify import Unchanged, blocks
from reprokit.engine import Engine
from reprokit.formatting import size as in_words
from reprokit.host import workspace
from reprokit.host.disk import require_space
from reprokit.supply.store import Store
from reprokit.untrusted.files import Folder
from reprokit.untrusted.limits import WORKSPACE_BYTES, WORKSPACE_ENTRIES
from reprokit.untrusted.tar import Stream, members

Say = Callable[[str], None]
# A link that takes more steps than this to resolve is refused, as the kernel refuses loops.
_MOST_STEPS = 256
_SHOWN_LINKS = 10
# Characters of all names and targets of links, which are kept until the links are made; folders below one another.
_MOST_NAMES = 16 << 20
_MOST_DEPTH = 64


@contextlib.contextmanager
def workspaces(bundle: Bundle, yes: bool, say: Say) -> Iterator[Callable[[], list[str]]]:
    """Unpacked, and not yet in their places: calling what is given puts them there and returns lines on it.

    Raises UsageError where one is no tar of plain files, folders and links, or where they are large and not `yes`.
    """
    new: dict[Path, Part] = {}
    for part in bundle.metadata.parts:
        if part.kind == "workspace":
            if os.path.lexists(place := workspace.locate(part.name)):
                say(f"the workspace {part.name} is here already ({place}); the bundle's is left in it")
            else:
                new[place] = part
    yes = yes or _allowed(bundle, new)
    with contextlib.ExitStack() as stack:
        staged: dict[Path, Path] = {}
        taken = _Taken(yes)
        for place, part in new.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{part.name}.", dir=place.parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            _unpack(bundle, part, folder, taken, say)
            folder.chmod(0o755)
            staged[place] = folder

        def put() -> list[str]:
            lines = []
            for place, folder in staged.items():
                if os.path.lexists(place):
                    lines.append(f"the workspace {place.name} was made meanwhile ({place}); the bundle's is left in it")
                    continue
                folder.rename(place)
                lines.append(f"the workspace {place.name} is in {place}")
            return lines

        yield put


def inputs(bundle: Bundle, store: Store, connect: Callable[[], Engine], say: Say) -> None:
    """Publish the inputs that came along, checked as `store import` does. Raises UsageError."""
    for part in bundle.metadata.parts:
        if part.kind == "store":
            # Few bundles bring inputs, and the import takes longer than all others of the command.
            from reprokit.supply.transfer.importing import take_in_from

            raw = Unchanged(bundle, part)
            with store.in_use(say):
                found = take_in_from(raw, bundle.path, store, connect, None, say)  # type: ignore[arg-type]
            say(f"inputs of {part.name}: new are {found.files} files, {found.repositories} repositories")


class _TooMuch(Exception):
    """A workspace is larger than is unpacked unasked."""


@dataclass
class _Taken:
    """What has been unpacked. Raises _TooMuch beyond the limits, unless `unbounded`."""

    unbounded: bool = False
    entries: int = 0
    size: int = 0

    def take(self, member: tarfile.TarInfo) -> None:
        self.entries += 1
        self.size += member.size
        if not self.unbounded and (self.entries > WORKSPACE_ENTRIES or self.size > WORKSPACE_BYTES):
            raise _TooMuch


def _allowed(bundle: Bundle, new: Mapping[Path, Part]) -> bool:
    """Whether the user agreed to large workspaces; counted before anything is written. Raises UsageError."""
    taken = _Taken()
    try:
        for part in new.values():
            for _ in _members(bundle, part, Unchanged(bundle, part), taken):
                pass
    except _TooMuch:
        most = f"{WORKSPACE_ENTRIES} files or {in_words(WORKSPACE_BYTES)}"
        consent.require(f"the bundle's workspaces have more than {most}", "--yes", False, bundle.where)
        return True
    return False


def _members(bundle: Bundle, part: Part, raw: Unchanged, taken: _Taken) -> Iterator[tuple[Stream, tarfile.TarInfo]]:
    """The entries of a workspace's tar. Raises UsageError where it is none, _TooMuch."""
    stream = Stream(blocks(raw))
    names = 0
    try:
        for member in members(stream, bundle.where):
            taken.take(member)
            names += len(member.name) + len(member.linkname)
            if names > _MOST_NAMES or member.name.count("/") > _MOST_DEPTH:
                raise tarfile.ReadError("its names are too long")
            yield stream, member
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        refuse(f"{part.path} is no tar of a workspace: {error}", bundle.where)


def _unpack(bundle: Bundle, part: Part, place: Path, taken: _Taken, say: Say) -> None:
    folders: set[PurePosixPath] = {PurePosixPath()}
    links: dict[str, str] = {}
    raw = Unchanged(bundle, part)
    try:
        with Folder(place) as folder:
            for stream, member in _members(bundle, part, raw, taken):
                name = PurePosixPath(member.name)
                what = f"{part.path}: {member.name!r}"
                if name.is_absolute() or ".." in name.parts or name in folders or str(name) in links:
                    refuse(f"{what} is no place in a workspace", bundle.where)
                if name.parent not in folders:
                    # Whatever is above an entry was made here as a folder, never as a link.
                    refuse(f"{what} stands in no folder of the workspace", bundle.where)
                if member.isdir():
                    folder.mkdir(str(name))
                    folders.add(name)
                elif member.issym():
                    links[str(name)] = member.linkname
                elif member.isreg():
                    require_space(member.size, place)
                    _write(stream, member, folder, str(name))
                else:
                    refuse(f"{what} is no file, folder or link", bundle.where)
            raw.finish()
            _link(folder, links, part, say)
    except _TooMuch:
        refuse(f"{part.path} has changed since it was checked", bundle.where)
    except (FileExistsError, UnicodeEncodeError) as error:
        refuse(f"{part.path} is no tar of a workspace: {error}", bundle.where)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        refuse(f"{part.path} has a name that is too long", bundle.where)


def _link(folder: Folder, links: Mapping[str, str], part: Part, say: Say) -> None:
    left_out = [name for name in links if not _stays(name, links)]
    for name in left_out[:_SHOWN_LINKS]:
        say(f"{part.name}: the link {name!r} leads to {links[name]!r} and is left out")
    if len(left_out) > _SHOWN_LINKS:
        say(f"{part.name}: {len(left_out) - _SHOWN_LINKS} more links that lead out are left out")
    for name in links.keys() - left_out:
        folder.link(name, links[name])


def _stays(name: str, links: Mapping[str, str]) -> bool:
    """Whether a link of the finished workspace leads to a path in it, following the links on the way."""
    at = list(PurePosixPath(name).parts[:-1])
    left = [name.rpartition("/")[2]]
    for _ in range(_MOST_STEPS):
        if not left:
            return True
        step = left.pop()
        if step == "..":
            if not at:
                return False
            at.pop()
        elif step not in ("", "."):
            at.append(step)
            if (target := links.get("/".join(at))) is not None:
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
