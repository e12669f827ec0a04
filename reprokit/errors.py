"""The errors a user meets. One class an exit code; `cli.main` is the only place that prints them."""

from __future__ import annotations

from typing import Any


class ReprokitError(Exception):
    """`message` is what is wrong, `where` the file, line, container or address, `hint` the command that fixes it.

    `explanation` holds lines that name the cause, found in the output of what failed; `causes` are all that were found.
    With `cause_known`, nobody looks for it in that output. With `log_kept`, `explain --last` has that output already.
    """

    exit_code = 1
    cause_known = False
    log_kept = False

    def __init__(self, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.explanation: tuple[str, ...] = ()
        self.causes: tuple[Any, ...] = ()  # of reprokit.explain.model.Cause, the likeliest first


class WorkFailed(ReprokitError):
    """The work itself failed, or a finding is an error."""

    exit_code = 1


class UsageError(ReprokitError):
    """Wrong usage or bad input."""

    exit_code = 2


class Absent(UsageError):
    """Something that the work needs and nobody can make here, such as data that is not locked. `reproduce` skips it."""


class EngineError(ReprokitError):
    """No engine, or the host is not able."""

    exit_code = 3


class SourceError(ReprokitError):
    """The network or a source failed."""

    exit_code = 4


class NoConnection(SourceError):
    """The hosts of a source cannot be reached. The hint names the setting of mirrors."""

    cause_known = True


def unread(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file could not be read, without the number and the path that an OSError's own text has."""
    return str(error.strerror if isinstance(error, OSError) else error)
