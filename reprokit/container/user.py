"""Whose processes run in a container, so that files made in mounted folders belong to the caller."""

from __future__ import annotations

import io
import os
import pwd
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reprokit.engine import Engine


@dataclass(frozen=True)
class Caller:
    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str

    @classmethod
    def here(cls) -> Caller:
        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = ""
        return cls(uid, os.getgid(), tuple(os.getgroups()), name)


@dataclass(frozen=True)
class Identity:
    """`user` and `groups` for the container; `host_users` where the engine must not shift ids for it."""

    user: str
    groups: tuple[str, ...]
    host_users: bool


def identity(caller: Caller, info: Mapping[str, Any]) -> Identity:
    """From the engine's info.

    Rootless engines (podman's too) map the caller to root inside and cannot map another id to the caller.
    Elsewhere ids are the host's, unless the daemon shifts them (userns-remap): then the container asks for
    the host's ids. The caller's groups come along, so that data which a group shares can be read.
    """
    options = [str(option) for option in info.get("SecurityOptions") or []]
    if any("rootless" in option for option in options):
        return Identity("0:0", (), False)
    groups = tuple(str(g) for g in sorted(set(caller.groups) - {0, caller.gid}))
    return Identity(f"{caller.uid}:{caller.gid}", groups, any("name=userns" in option for option in options))


def add_account(engine: Engine, container: str, user: str, caller: Caller) -> None:
    """Give the container's user a name and a home in a container that has not started.

    Without an entry in /etc/passwd torch's `getpass.getuser()` fails, bash says `I have no name!` and HOME is
    `/`. It is written into the container's own files: mounted over them, apt and useradd could not change
    them any more.
    """
    if user.startswith("0:"):
        return
    passwd, group = (_read(engine, container, f"/etc/{file}") for file in ("passwd", "group"))
    added = with_account(passwd, group, caller)
    if added is None:
        return
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        _add(tar, "etc/passwd", added.passwd)
        _add(tar, "etc/group", added.group)
        home = tarfile.TarInfo(added.home.lstrip("/"))
        home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, caller.uid, caller.gid
        tar.addfile(home)
    engine.put_archive(container, "/", archive.getvalue())


@dataclass(frozen=True)
class Account:
    passwd: str
    group: str
    home: str


def with_account(passwd: str, group: str, caller: Caller) -> Account | None:
    """Both files with the caller added, and the home to make; None where the image has a user of that id."""
    users = [line.split(":") for line in passwd.splitlines() if line.count(":") >= 6]
    if any(fields[2] == str(caller.uid) for fields in users):
        return None
    taken = {fields[0] for fields in users}
    plain = re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", caller.name)
    name = caller.name if plain and caller.name not in taken else f"user{caller.uid}"
    home = f"/home/{name}"
    passwd = _line_end(passwd) + f"{name}:x:{caller.uid}:{caller.gid}::{home}:/bin/sh\n"
    groups = [line.split(":") for line in group.splitlines()]
    if not any(len(fields) > 2 and fields[2] == str(caller.gid) for fields in groups):
        unused = name if name not in {fields[0] for fields in groups} else f"group{caller.gid}"
        group = _line_end(group) + f"{unused}:x:{caller.gid}:\n"
    return Account(passwd, group, home)


def _line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _read(engine: Engine, container: str, path: str) -> str:
    archive = engine.get_archive(container, path)
    if archive is None:
        return ""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = next((m for m in tar if m.isreg()), None)
        content = tar.extractfile(member) if member else None
        return content.read().decode(errors="surrogateescape") if content else ""


def _add(tar: tarfile.TarFile, path: str, text: str) -> None:
    data = text.encode(errors="surrogateescape")
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
