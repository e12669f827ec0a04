"""What a bundle brings beside images: workspaces into their folders, inputs into the store.

A workspace is a tar of a stranger's: it is unpacked beside its place, file by file, into a folder that is new, and
takes its place by a rename. One that is here is left as it is.
"""

from __future__ import annotations

import contextlib
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import zstandard

from reprokit import paths
from reprokit.bundle.members import refuse
from reprokit.bundle.model import Part
from reprokit.bundle.read import Bundle
from reprokit.bundle.verify import Raw, blocks
from reprokit.engine import Engine
from reprokit.space import need_space
from reprokit.supply.store import Store
from reprokit.untrusted.limits import WORKSPACE_ENTRIES
from reprokit.untrusted.tar import Stream, members

Say = Callable[[str], None]


@contextlib.contextmanager
def workspaces(bundle: Bundle, say: Say) -> Iterator[Callable[[], list[str]]]:
    """Unpacked, and not yet in their places: calling what is given puts them there and returns lines on it.

    Raises UsageError where one is no tar of plain files, folders and links.
    """
    with contextlib.ExitStack() as stack:
        staged: dict[Path, Path] = {}
        for part in bundle.metadata.parts:
            if part.kind != "workspace":
                continue
            place = paths.workspace(part.name)
            if place.exists():
                say(f"the workspace {part.name} is here already ({place}); the bundle's is left in it")
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{part.name}.", dir=place.parent))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            _unpack(bundle, part, folder, say)
            folder.chmod(0o755)
            staged[place] = folder

        def put() -> list[str]:
            lines = []
            for place, folder in staged.items():
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

            raw = Raw(bundle, bundle.members[part.path], lambda block: None)
            with store.in_use(say):
                found = take_in_from(raw, bundle.path, store, connect, None, say)  # type: ignore[arg-type]
            say(f"inputs of {part.name}: new are {found.files} files, {found.repositories} repositories")


def _unpack(bundle: Bundle, part: Part, folder: Path, say: Say) -> None:
    folders: set[PurePosixPath] = {PurePosixPath()}
    try:
        stream = Stream(blocks(bundle, bundle.members[part.path]))
        for member in members(stream, bundle.where, WORKSPACE_ENTRIES):
            name = PurePosixPath(member.name)
            what = f"{part.path}: {member.name!r}"
            if name.is_absolute() or ".." in name.parts or name in folders:
                refuse(f"{what} is no place in a workspace", bundle.where)
            if name.parent not in folders:
                # Whatever is above an entry was made here as a folder, never as a link.
                refuse(f"{what} stands in no folder of the workspace", bundle.where)
            if member.isdir():
                (folder / name).mkdir()
                folders.add(name)
            elif member.issym():
                if _leads_out(name, member.linkname):
                    say(f"{part.name}: the link {name} leads to {member.linkname} and is left out")
                else:
                    (folder / name).symlink_to(member.linkname)
            elif member.isreg():
                need_space(folder, member.size)
                _write(stream, member, folder / name)
            else:
                refuse(f"{what} is no file, folder or link", bundle.where)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, FileExistsError) as error:
        refuse(f"{part.path} is no tar of a workspace: {error}", bundle.where)


def _leads_out(name: PurePosixPath, link: str) -> bool:
    depth = len(name.parent.parts)
    for step in PurePosixPath(link).parts:
        depth += -1 if step == ".." else 1
        if depth < 0:
            return True
    return link.startswith("/")


def _write(stream: Stream, member: tarfile.TarInfo, path: Path) -> None:
    with path.open("xb") as out:
        for block in stream.body(member.size):
            out.write(block)
    path.chmod(member.mode & 0o755 | 0o600)
