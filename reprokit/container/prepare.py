"""What a container gets before it starts, through the engine's archive API: no program of the image runs for it.

The engine unpacks inside the container's root, so that no link of the image leads out of it.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from reprokit.container.spec import PROGRAM
from reprokit.container.user import Caller, named_groups, with_account
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.helper.program import program
from reprokit.untrusted.limits import ACCOUNTS
from reprokit.untrusted.tar import Stream, members


@dataclass(frozen=True)
class Preparation:
    """`user` (`uid:gid`) runs the commands; `groups` are the user's supplementary groups.

    `links` are targets by their path in the container.
    """

    user: str
    caller: Caller
    groups: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)


def prepare(engine: Engine, container: str, wanted: Preparation) -> None:
    """Ready a container that has never started. Raises UsageError where the image has other things in the way."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        if not wanted.user.startswith("0:"):
            _add_account(tar, engine, container, wanted)
        for path, target in wanted.links.items():
            _require_free(engine, container, path)
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        _add_program(tar, engine)
    engine.put_archive(container, "/", stream.getvalue())


def put_program(engine: Engine, container: str) -> None:
    """Put the idle program anew into a stopped container, whose commands may have replaced it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        _add_program(tar, engine)
    engine.put_archive(container, "/", stream.getvalue())


@dataclass(frozen=True)
class Etc:
    """A container's passwd and group, "" where they are missing; `owned`: in /etc only root can change the latter."""

    passwd: str = ""
    group: str = ""
    owned: bool = False


def read_etc(engine: Engine, container: str) -> Etc:
    """Raises UsageError where /etc is a link, or what is to be read exceeds a limit."""
    found: dict[str, str] = {}
    owned = False
    with engine.archive(container, "/etc") as blocks:
        if blocks is None:
            return Etc(owned=True)
        stream = Stream(blocks)
        for member in members(stream, container):
            if member.name == "etc":
                if not member.isdir():
                    raise UsageError("the image's /etc is no folder", container)
                owned = _roots(member)
            elif member.name in ("etc/passwd", "etc/group"):
                ACCOUNTS.check(member.size, f"bytes in /{member.name}", container)
                if member.name == "etc/group":
                    owned = owned and member.isreg() and _roots(member)
                found[member.name] = stream.read(member.size if member.isreg() else 0).decode(errors="surrogateescape")
                if len(found) == 2:
                    break
    return Etc(found.get("etc/passwd", ""), found.get("etc/group", ""), owned)


def _roots(member: tarfile.TarInfo) -> bool:
    return member.uid == 0 and not member.mode & 0o022


def _add_account(tar: tarfile.TarFile, engine: Engine, container: str, wanted: Preparation) -> None:
    """Give the container's user a name and a home.

    Without an entry in /etc/passwd torch's `getpass.getuser()` fails, bash says `I have no name!` and HOME is
    `/`. It is written into the container's own files: mounted over them, apt and useradd could not change
    them any more.
    """
    etc = read_etc(engine, container)
    if wanted.groups:
        _require_own_groups(engine, container, etc, wanted.groups)
    added = with_account(etc.passwd, etc.group, wanted.caller)
    if added is None:
        return
    _add(tar, "etc/passwd", added.passwd.encode(errors="surrogateescape"), 0o644)
    _add(tar, "etc/group", added.group.encode(errors="surrogateescape"), 0o644)
    home = tarfile.TarInfo(added.home.lstrip("/"))
    home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, wanted.caller.uid, wanted.caller.gid
    tar.addfile(home)


def _require_own_groups(engine: Engine, container: str, etc: Etc, groups: Sequence[str]) -> None:
    """Raises UsageError where the image could give its processes groups of the host that are not the user's.

    At each command the engine reads in /etc/group which groups are meant, and takes a number for a name first.
    """
    if named := named_groups(etc.group, groups):
        raise UsageError(f"the image has a group called {named[0]}, the id of a group of yours", container)
    if not (etc.owned and all(_roots(member) for member in _first(engine, container, "/", 1))):
        raise UsageError(
            "the image lets its user replace /etc/group, which decides the groups of your processes",
            container,
            "/, /etc and /etc/group must be root's, and writable by root alone",
        )


def _require_free(engine: Engine, container: str, path: str) -> None:
    """Raises UsageError unless nothing or an empty folder is at `path`, with no link above it."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        parent = "/" + "/".join(parts[:count])
        found = _first(engine, container, parent, 1)
        if not found:
            return
        if not found[0].isdir():
            raise _in_the_way(container, path, parent)
    found = _first(engine, container, path, 2)
    if found and (len(found) > 1 or not found[0].isdir()):
        raise _in_the_way(container, path, path)


def _in_the_way(container: str, path: str, place: str) -> UsageError:
    return UsageError(
        f"the recipe's mount {path} cannot be made: the image has files or a link at {place}",
        container,
        "name another target in the recipe's `mounts`, or mount a folder there yourself with -v",
    )


def _first(engine: Engine, container: str, path: str, count: int) -> list[tarfile.TarInfo]:
    """The first entries of a folder or file of the container, itself among them; none where it is missing."""
    with engine.archive(container, path) as blocks:
        return [] if blocks is None else list(islice(members(Stream(blocks), container), count))


def _add_program(tar: tarfile.TarFile, engine: Engine) -> None:
    _add(tar, PROGRAM, program(str(engine.version().get("Arch", ""))).read_bytes(), 0o555)


def _add(tar: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
