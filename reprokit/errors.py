"""The errors a user meets. One class an exit code; `cli.main` is the only place that prints them."""

from __future__ import annotations

from typing import Any


class ReprokitError(Exception):
    """`message` is what is wrong, `where` the file, line, container or address, `hint` the command that fixes it.

    `explanation` has lines that name the cause, from the output of the failed program; `causes` are all of them. With
    `cause_known`, that output is not searched. With `log_kept`, `explain --last` has it already.
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
    """A requirement that this machine cannot make, such as data that is not locked. `reproduce` skips the step."""


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
    """Why a text file could not be read, without the number and path in an OSError's text."""
    return str(error.strerror if isinstance(error, OSError) else error)
