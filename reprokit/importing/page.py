"""The page of a repaired recipe: what was found, what was changed and why, and what still fails. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.importing.decision import Choice
from reprokit.importing.recipe_of import ImportedRecipe
from reprokit.importing.repair import Round
from reprokit.untrusted.terminal import markdown

_MOST = 400


def page(
    name: str, source: str, found: ImportedRecipe, rounds: Sequence[Round], state: str, works: bool = False
) -> str:
    """Markdown. Text of the repository and of logs is shown as it is, without markup or links.

    `state` says how the last attempt ended, `works` whether it succeeded.
    """
    decision, versions = found.decision, found.versions
    parts = [
        f"# {markdown(name)}, read and repaired",
        f"Read from {markdown(source)}; versions as of {decision.day}. {markdown(state)}.",
        "## Found",
        _list(
            [
                _base(decision.base_choice),
                *(f"{pin} {_base(choice)}" for pin, choice in decision.pins.items()),
                *(f"to pass check: {line}" for line in found.fitted),
            ]
        ),
        f"{len(versions.pins)} wheels, {len(versions.sdists)} sdists, {len(decision.apt)} packages of the distribution."
        " The recipe names the file and line of each.",
    ]
    questions = [*versions.questions, *decision.questions]
    if questions:
        asked = [question.text + (f" ({question.origin})" if question.origin else "") for question in questions]
        parts += ["## Not settled by any file", _list(asked)]
    parts.append("## Changed")
    changes = [line for number, each in enumerate(rounds, 1) for line in _changed(number, each)]
    parts.append("\n".join(changes) if changes else "Nothing.")
    parts += ["## Still fails", "Nothing." if works else _still(rounds)]
    return "\n\n".join(parts) + "\n"


def _base(choice: Choice) -> str:
    origins = f" ({', '.join(map(str, choice.origins))})" if choice.origins else ""
    return f"{choice.value}: {choice.why}{origins}"


def _changed(number: int, each: Round) -> list[str]:
    if not each.changes or each.cause is None:
        return []
    cause = each.cause
    return [
        f"{number}. {_text(each.failures[0].step)} failed: {_text(cause.cause)} (rule {markdown(cause.rule)})",
        f"   - line {cause.line} of its log: {_text(cause.text)}",
        *(f"   - {_text(change)}" for change in each.changes),
    ]


def _still(rounds: Sequence[Round]) -> str:
    if not rounds or rounds[-1].changes:
        return "Not known: the last attempt did not end."
    lines = []
    for failure in rounds[-1].failures:
        lines.append(f"{failure.step}: {failure.message}")
        for cause in failure.causes[:1]:
            lines.append(f"cause: {cause.cause}; remedy: {'; '.join(cause.remedy.splitlines())}")
    return _list([*lines, *(f"not changed: {text}" for text in rounds[-1].refused)])


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_text(line)}" for line in lines)


def _text(text: str) -> str:
    return markdown(" ".join(text.split())[:_MOST])
