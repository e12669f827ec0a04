"""`reprokit explain`."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.explain.model import Cause, Explanation


def explain(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE|-]", help="The log; - is standard input.", autocompletion=completion.files),
    ] = None,
    last: bool = typer.Option(
        False, "--last", help="The log of the last build, run, smoke, bench, lock or load that failed."
    ),
    json: options.Json = False,
) -> None:
    """Name the cause of a failure from its log, and the remedy."""
    from reprokit.errors import UsageError
    from reprokit.explain.judge import explain as explained

    if (file is None) is not last:
        raise UsageError(
            "name one log: FILE, - or --last", hint="`reprokit explain --last` reads that of the last failure"
        )
    with _opened(file or _last()) as log:
        # A kept log is that of a failure.
        found = explained(log, failed=True if last else None)
    if json:
        dump(found.as_json())
    else:
        _print(found)


def _last() -> Path:
    from reprokit.errors import UsageError
    from reprokit.explain.last import log_path

    if not log_path().exists():
        raise UsageError("no failure is kept", str(log_path()), "name a log: `reprokit explain FILE`")
    return log_path()


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    from reprokit.errors import UsageError

    if str(path) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        opened = path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read the log: {error.strerror}", str(path)) from None
    if stat.S_ISDIR(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise UsageError("this is a folder, not a log", str(path))
    return opened


def _print(found: Explanation) -> None:
    if found.success:
        echo("no failure found in this log")
    for number, cause in enumerate(found.causes):
        if number == 1:
            echo()
            echo("also possible:")
        (_print_first if number == 0 else _print_other)(cause)


def _print_first(cause: Cause) -> None:
    echo(f"line {cause.line}: {cause.cause}")
    echo(f"  rule {cause.rule}, confidence {cause.confidence:.0%}")
    width = len(str(cause.context[-1][0])) if cause.context else 1
    for number, text in cause.context:
        echo(f"  {'>' if number == cause.line else ' '} {number:{width}} | {text}")
    for step in cause.remedy.strip().splitlines():
        echo(f"  remedy: {step}")
    for change in cause.recipe_change:
        value = f" {change['value']}" if change["value"] is not None else ""
        echo(f"  recipe: {change['op']} {change['path']}{value}")


def _print_other(cause: Cause) -> None:
    echo(f"  line {cause.line}: {cause.cause} ({cause.rule}, confidence {cause.confidence:.0%})")
