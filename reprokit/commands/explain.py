"""`reprokit explain`."""

from __future__ import annotations

import io
import os
import stat
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.explain.last import LastFailure
    from reprokit.explain.model import Cause, Explanation
    from reprokit.explain.remedy import Subject

_NEIGHBOURS = 3  # lines shown before and after the cause


def explain(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE|-]", help="The log; - is standard input.", autocompletion=completion.files),
    ] = None,
    last: bool = options.flag("--last", "The log of the last verb that failed; its remedies name lines of the recipe."),
    json: options.Json = False,
) -> None:
    """Name the cause of a failure from its log, and the remedy."""
    from reprokit.errors import UsageError
    from reprokit.explain.judge import explain as explained

    if (file is None) is not last:
        raise UsageError(
            "name one log: FILE, - or --last", hint="`reprokit explain --last` reads that of the last failure"
        )
    if file is None:
        _explain_last(json)
        return
    with _opened(file) as log:
        explanation = explained(log)
    if json:
        dump(explanation.as_json())
    else:
        _print(explanation, None)


def _explain_last(json: bool) -> None:
    from reprokit.errors import UsageError
    from reprokit.explain.judge import explain as explained
    from reprokit.explain.last import good_lines, log_path, read_log

    try:
        log, failure = read_log()
    except FileNotFoundError:
        raise UsageError("no failure is kept", str(log_path()), "name a log: `reprokit explain FILE`") from None
    subject = _subject(failure)
    pins = subject.target.variant.pins if subject else {}
    explanation = explained(io.BytesIO(log), failed=True, pins=pins, good=good_lines(subject, failure.verb))
    explanation = explanation._replace(unfit=[*explanation.unfit, *_unfit(subject)])
    if json:
        dump({"failure": asdict(failure), **explanation.as_json()})
        return
    if failure.time:
        echo(str(failure))
    if failure.error:
        for line in log.decode("utf-8", "replace").splitlines():
            echo(line)
    else:
        _print(explanation, subject)


def _unfit(subject: Subject | None) -> list[str]:
    """What does not fit in the recipe's pins and lock, and what keeps it from running on this machine."""
    from reprokit.errors import ReprokitError
    from reprokit.host.fit import in_words, recipe_findings
    from reprokit.host.gpu import gpus
    from reprokit.host.memory import memory_bytes
    from reprokit.image.lock.fit import findings

    if subject is None:
        return []
    cards = gpus()
    problems = recipe_findings(subject.target.variant, bool(cards), cards, memory_bytes(), None)
    with suppress(ReprokitError):  # the recipe or a file of it was changed
        problems = [*findings(subject.target), *problems]
    return [in_words(finding) for finding in problems if finding.severity == "error"]


def _subject(failure: LastFailure) -> Subject | None:
    """The recipe that failed, unless it was removed or has other variants meanwhile."""
    from reprokit.errors import ReprokitError
    from reprokit.explain.remedy import Subject
    from reprokit.recipe.find import target

    try:
        return Subject(target(f"{failure.recipe}:{failure.variant}"), failure.block) if failure.recipe else None
    except ReprokitError:
        return None


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


def _print(explanation: Explanation, subject: Subject | None) -> None:
    if explanation.success:
        echo("no failure found in this log")
        return
    if explanation.success is None:
        echo("no rule knows a failure in this log; if it failed, this line reads most like an error")
    for number, cause in enumerate(explanation.causes):
        if number == 0:
            _print_first(explanation, cause, subject)
            continue
        if number == 1:
            echo()
            echo("also possible:")
        echo(f"  line {cause.line}: {cause.cause} ({cause.rule})")


def _print_first(explanation: Explanation, cause: Cause, subject: Subject | None) -> None:
    from reprokit.explain.remedy import change_in_words, remedy

    echo(f"line {cause.line}: {cause.sentence}")
    right = round(cause.confidence * cause.measured_on)
    measured = f"; {right} of {cause.measured_on} such answers were right" if cause.measured_on else ""
    echo(f"  {explanation.family or 'unknown family'}, rule {cause.rule}{measured}")
    shown = [(number, text) for number, text in cause.context if abs(number - cause.line) <= _NEIGHBOURS]
    width = len(str(shown[-1][0])) if shown else 1
    for number, text in shown:
        echo(f"  {'>' if number == cause.line else ' '} {number:{width}} | {text}")
    for step in remedy(cause, subject):
        echo(f"  remedy: {step}")
    for change in () if subject else cause.recipe_change:
        echo(f"  in a recipe: {change_in_words(change)}")
    if explanation.new:
        echo(f"  no earlier success printed line {explanation.new[0]}: {explanation.new[1]}")
    for line, text in explanation.advice:
        echo(f'  the log advises in line {line}: "{text}"')
    for problem in explanation.unfit:
        echo(f"  does not fit: {problem}")
    if explanation.seen:
        echo(f"  the log names {', '.join(map(str, explanation.seen))}")
    if explanation.thread:
        echo(f"  similar: {explanation.thread.source}")
    if not cause.sure and explanation.query:
        echo(f"  to search for: {explanation.query}")
