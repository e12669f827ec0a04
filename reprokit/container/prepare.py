"""Files that a container gets before it starts: account, links, and the idle program.

They go through the engine's archive API, so no program of the image runs. The engine unpacks them inside the
container's root, so no link of the image leads out of it.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from reprokit.container.user import Identity, named_groups, with_account
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.helper.program import program
from reprokit.host.user import Caller
from reprokit.tarfiles import add, tar_of
from reprokit.untrusted.limits import ACCOUNTS
from reprokit.untrusted.tar import Stream, members

# Reprokit's own program, put into the container before it starts. It only keeps the container alive: a program of the
# image would run unasked, with the variables and libraries of the image.
PROGRAM = "/.reprokit-idle"


def prepare(engine: Engine, container: str, caller: Caller, who: Identity, links: Mapping[str, str]) -> None:
    """Prepare a container that has never started; `links` maps paths in it to the targets of symbolic links.

    Raises UsageError if files of the image are in the way.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        if not who.user.startswith("0:"):
            _add_account(tar, engine, container, caller, who.groups)
        for path, target in links.items():
            _require_free(engine, container, path)
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        add(tar, PROGRAM, _program(engine), 0o555)
    engine.put_archive(container, "/", stream.getvalue())


def put_program(engine: Engine, container: str) -> None:
    """Restore the idle program of a stopped container, whose commands may have replaced it."""
    engine.put_archive(container, "/", tar_of({PROGRAM: _program(engine)}, 0o555))


@dataclass(frozen=True)
class Etc:
    """A container's passwd and group, "" if missing; `owned`: only root can change /etc/group."""

    passwd: str = ""
    group: str = ""
    owned: bool = False


def read_etc(engine: Engine, container: str) -> Etc:
    """Read both files. Raises UsageError if /etc is a link or a file exceeds its limit."""
    texts: dict[str, str] = {}
    owned = False
    with engine.archive(container, "/etc") as blocks:
        if blocks is None:
            return Etc(owned=True)
        stream = Stream(blocks)
        for member in members(stream, container):
            if member.name == "etc":
                if not member.isdir():
                    raise UsageError("the image's /etc is not a folder", container)
                owned = _is_roots(member)
            elif member.name in ("etc/passwd", "etc/group"):
                ACCOUNTS.check(member.size, f"bytes in /{member.name}", container)
                if member.name == "etc/group":
                    owned = owned and member.isreg() and _is_roots(member)
                texts[member.name] = stream.read(member.size if member.isreg() else 0).decode(errors="surrogateescape")
                if len(texts) == 2:
                    break
    return Etc(texts.get("etc/passwd", ""), texts.get("etc/group", ""), owned)


def _is_roots(member: tarfile.TarInfo) -> bool:
    return member.uid == 0 and not member.mode & 0o022


def _add_account(tar: tarfile.TarFile, engine: Engine, container: str, caller: Caller, groups: Sequence[str]) -> None:
    """Give the container's user a name and a home.

    Without an entry in /etc/passwd torch's `getpass.getuser()` fails, bash says `I have no name!` and HOME is `/`. The
    entry goes into the container's own files, because apt and useradd could not change mounted ones.
    """
    etc = read_etc(engine, container)
    if groups:
        _require_own_groups(engine, container, etc, groups)
    added = with_account(etc.passwd, etc.group, caller)
    if added is None:
        return
    add(tar, "etc/passwd", added.passwd.encode(errors="surrogateescape"))
    add(tar, "etc/group", added.group.encode(errors="surrogateescape"))
    home = tarfile.TarInfo(added.home.lstrip("/"))
    home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, caller.uid, caller.gid
    tar.addfile(home)


def _require_own_groups(engine: Engine, container: str, etc: Etc, groups: Sequence[str]) -> None:
    """Raises UsageError if the image could give its processes groups of the host that are not the user's.

    At each command the engine looks up the groups in /etc/group, where a number may be the name of another group.
    """
    if named := named_groups(etc.group, groups):
        raise UsageError(f"the image has a group named {named[0]}, the id of one of your groups", container)
    if not (etc.owned and all(_is_roots(member) for member in _first(engine, container, "/", 1))):
        raise UsageError(
            "the image lets its user replace /etc/group, which decides the groups of your processes",
            container,
            "/, /etc and /etc/group must belong to root, and only root may write them",
        )


def _require_free(engine: Engine, container: str, path: str) -> None:
    """Raises UsageError unless `path` is missing or an empty folder, with no link above it."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        parent = "/" + "/".join(parts[:count])
        entries = _first(engine, container, parent, 1)
        if not entries:
            return
        if not entries[0].isdir():
            raise _in_the_way(container, path, parent)
    entries = _first(engine, container, path, 2)
    if entries and (len(entries) > 1 or not entries[0].isdir()):
        raise _in_the_way(container, path, path)


def is_folder(engine: Engine, container: str, path: str) -> bool:
    first = _first(engine, container, path, 1)
    return bool(first) and first[0].isdir()


def _in_the_way(container: str, path: str, place: str) -> UsageError:
    return UsageError(
        f"the recipe's mount {path} cannot be made: the image has files or a link at {place}",
        container,
        "name another target in the recipe's `mounts`, or mount a folder there yourself with -v",
    )


def _first(engine: Engine, container: str, path: str, count: int) -> list[tarfile.TarInfo]:
    """The first entries of a folder or file in the container, including itself; none if it is missing."""
    with engine.archive(container, path) as blocks:
        return [] if blocks is None else list(islice(members(Stream(blocks), container), count))


def _program(engine: Engine) -> bytes:
    return program(engine.version().architecture).read_bytes()
