"""The user of a container's processes, so that files made in mounted folders belong to the caller."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reprokit.engine import EngineInfo
from reprokit.errors import UsageError
from reprokit.host.user import Caller


@dataclass(frozen=True)
class Identity:
    """`user` and `groups` of the container; `host_users` if the engine must not shift its ids."""

    user: str
    groups: tuple[str, ...]
    host_users: bool


def identity(caller: Caller, info: EngineInfo) -> Identity:
    """The caller's identity in a container, from the engine's info.

    Rootless engines (podman's too) map the caller to root inside and cannot map another id to the caller. Elsewhere ids
    are the host's. If the daemon shifts them (userns-remap), the container asks for the host's ids. The caller's
    groups are added, so that data shared with a group can be read.
    """
    if info.has_option("rootless"):
        return Identity("0:0", (), False)
    groups = tuple(str(g) for g in sorted(set(caller.groups) - {0, caller.gid}))
    return Identity(f"{caller.uid}:{caller.gid}", groups, info.has_option("name=userns"))


@dataclass(frozen=True)
class Account:
    passwd: str
    group: str
    home: str


def with_account(passwd: str, group: str, caller: Caller) -> Account | None:
    """Add the caller to both files, and choose a home to create; None if the image has a user with that id."""
    taken, uid = set(), str(caller.uid)
    for fields in _entries(passwd, 7):
        if fields[2] == uid:
            return None
        taken.add(fields[0])
    plain = re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", caller.name)
    name = caller.name if plain and caller.name not in taken else f"user{caller.uid}"
    home = f"/home/{name}"
    passwd = _line_end(passwd) + f"{name}:x:{caller.uid}:{caller.gid}::{home}:/bin/sh\n"
    if not any(fields[2] == str(caller.gid) for fields in _entries(group, 3)):
        unused = f"group{caller.gid}" if any(fields[0] == name for fields in _entries(group, 3)) else name
        group = _line_end(group) + f"{unused}:x:{caller.gid}:\n"
    return Account(passwd, group, home)


def named_groups(group: str, groups: Iterable[str]) -> list[str]:
    """Those of the numeric `groups` that are also names in /etc/group.

    Engines look up a container's additional groups by name first, and a group named 44 may have any id.
    """
    return sorted({fields[0].strip() for fields in _entries(group, 1)} & set(groups))


def is_root(user: str) -> bool:
    """Whether `--user` means root."""
    return _id(user.partition(":")[0]) == 0


def resolved(user: str, passwd: str, group: str) -> str:
    """`--user` as `uid:gid`. The engine would accept an image that maps any name to root, so look names up here.

    Raises UsageError for a name that is not in the files, and for one that only the files make root or a member of
    root's group.
    """
    name, _, of_group = user.partition(":")
    uid, gid = _id(name), _id(of_group)
    if uid != 0:
        entry = next((e for e in _entries(passwd, 7) if name == e[0 if uid is None else 2]), None)
        uid = _id(entry[2]) if entry else uid
        gid = _id(entry[3]) if entry and not of_group else gid
    if of_group and gid is None:
        gid = next((_id(e[2]) for e in _entries(group, 3) if of_group == e[0]), None)
    gid = uid if gid is None and not of_group else gid
    if uid is None or gid is None:
        raise UsageError(f"the container has no user {user!r}", hint="write numbers: --user 1000:1000")
    if _id(name) != 0 and (uid == 0 or (gid == 0 and _id(of_group) != 0)):
        raise UsageError(
            f"the files of the container make the user {user!r} root, or one of root's group",
            hint="write --user root, or numbers: --user 1000:1000",
        )
    return f"{uid}:{gid}"


def _id(text: str) -> int | None:
    return 0 if text == "root" else int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def _entries(text: str, fields: int) -> Iterator[list[str]]:
    """The lines of passwd or group with at least this many fields."""
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) >= fields:
            yield parts


def _line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
