"""The user whose files containers work on."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """A user of a machine; `name` is "" if the system has no name for the id."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str

    @classmethod
    def current(cls) -> Caller:
        """The user of this process."""
        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = ""
        return cls(uid, os.getgid(), tuple(os.getgroups()), name)
