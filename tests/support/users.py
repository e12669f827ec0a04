"""Runs parts of a test as another user of this machine."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reprokit.errors import ReprokitError

# An ordinary user, and a group that they share with others. Root takes numbers that nobody has; any other user is the
# ordinary user.
UID, GID, SHARED = 4711, 4712, 4713
if os.geteuid() != 0:
    UID, GID = os.geteuid(), os.getegid()
    SHARED = next((group for group in os.getgroups() if group != GID), GID)

_ANSWER_S = 200
# linux/prctl.h, linux/capability.h
_PR_SET_KEEPCAPS, _CAPABILITY_VERSION_3, _CAP_DAC_READ_SEARCH = 8, 0x20080522, 1 << 2


def engines_groups() -> list[int]:
    """The groups that `as_user` needs to reach the machine's engine and the files of the shared group."""
    return [Path("/var/run/docker.sock").stat().st_gid, SHARED]


def give(place: Path, uid: int = UID, gid: int = GID) -> None:
    """Make the user the owner of the folder and of all below it."""
    for path in (place, *place.rglob("*")):
        os.lchown(path, uid, gid)


def as_user(
    work: Callable[[], Any], uid: int = UID, gid: int = GID, groups: Sequence[int] = (), reads_all: bool = True
) -> Any:
    """What `work` returns in a child of this process that is the user's. Its ReprokitErrors are raised here.

    With `reads_all` the child may read every file, as root may: the checkout and its Python can lie in root's home.
    """
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_work, args=(work, uid, gid, groups, reads_all, answers))
    child.start()
    answer = answers.get(timeout=_ANSWER_S)
    child.join()
    if isinstance(answer, tuple):
        kind, arguments = answer
        raise kind(*arguments)
    return answer[0]


def _work(work: Callable[[], Any], uid: int, gid: int, groups: Sequence[int], reads_all: bool, answers: Any) -> None:
    try:
        if os.geteuid() == 0:
            _become(uid, gid, groups, reads_all)
        answers.put([work()])
    except ReprokitError as error:
        answers.put((type(error), (error.message, error.where, error.hint)))
    except BaseException as error:
        answers.put((AssertionError, (repr(error),)))
        raise


def _become(uid: int, gid: int, groups: Sequence[int], reads_all: bool) -> None:
    """Give up root's rights for good. With `reads_all` the right to read every file stays."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.setgroups(groups)
    os.setgid(gid)
    libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setuid(uid)
    kept = _CAP_DAC_READ_SEARCH if reads_all else 0
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    if libc.capset(header, effective_permitted_inheritable):
        raise OSError(ctypes.get_errno(), "capset")
