"""What files state and the recipe does not use, with the reason for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from packaging.utils import canonicalize_name

from reprokit.compat.distributions import Distributions
from reprokit.importing.decision import Choice, Decision, Overruled
from reprokit.importing.model import Statement
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.scopes import BINDER_REPLACES
from reprokit.importing.system_choice import ENV_OF_IMAGES, TRUSTED

_MOST = 40
# Files whose `git clone` is listed; that of another file is a question.
_HINTING = ("readme", "notebook", "workflow", "makefile", "repo2docker", "devcontainer")
_SPLIT = "=<>!~[;@ "


def unused_of(
    statements: Sequence[Statement], ours: Sequence[Statement], decision: Decision, distributions: Distributions
) -> tuple[Overruled, ...]:
    """What the decision passes over in silence. `ours` are the statements that it was made from.

    Optional features, tests and documents are no part of it.
    """
    kept = set(ours)
    found: dict[tuple[str, str], Overruled] = {}
    for statement in statements:
        one = None
        if statement.origin.file in BINDER_REPLACES and statement.scope == "other":
            why = "repo2docker reads its own folder instead"
            one = Overruled(f"{statement.subject} {statement.value}", statement.origin, why)
        elif statement.scope == "run" and statement not in kept:
            one = _of_other_project(statement, decision)
        elif statement.scope == "run":
            one = _why(statement, decision, distributions)
        if one:
            found.setdefault((one.value, one.origin.file), one)
    lines = list(found.values())
    if len(lines) > _MOST:
        more = f"{len(lines) - _MOST} more statements"
        lines[_MOST:] = [Overruled(more, lines[_MOST].origin, "too many to list, from this line on")]
    return tuple(lines)


def _why(statement: Statement, decision: Decision, distributions: Distributions) -> Overruled | None:
    subject, value = statement.subject, statement.value
    if subject == "package" or subject == "conda":
        return _package(statement, decision, distributions)
    if subject == "apt" and not _has(decision.apt, value.partition("=")[0]):
        why = "the base and the blocks choose this version" if statement.format in TRUSTED else ""
        return Overruled(
            f"apt {value}", statement.origin, why or "what CI, a script or a README installs is often for other systems"
        )
    if (
        subject == "env"
        and statement.format in (*TRUSTED, "readme")
        and value.partition("=")[0] not in ENV_OF_IMAGES
        and not _has(decision.env, value)
    ):
        name = value.partition("=")[0]
        replaced = any(choice.value.startswith(f"{name}=") for choice in decision.env)
        return Overruled(
            value, statement.origin, f"{name} has another value" if replaced else "no file for an image sets it"
        )
    if subject == "library" and statement.format == "cmake" and value.split()[0] not in distributions.libraries:
        name = value.split()[0]
        if not distributions.of_part(name) and canonicalize_name(name) not in decision.requirements:
            return Overruled(f"the library {value}", statement.origin, "no package of the distribution is known for it")
    if subject == "architecture" and "cuda" not in decision.pins:
        return Overruled(f"GPU architecture {value}", statement.origin, "no code is compiled for CUDA here")
    if subject == "source" and statement.format in _HINTING:
        return Overruled(value, statement.origin, "a clone for its reader; add it to `sources` if the code needs it")
    if subject == "cudnn":
        return Overruled(f"cuDNN {value}", statement.origin, "wheels have their own cuDNN")
    return None


def _package(statement: Statement, decision: Decision, distributions: Distributions) -> Overruled | None:
    name = statement.value
    for letter in _SPLIT:
        name = name.partition(letter)[0]
    project = canonicalize_name(name)
    if statement.subject == "conda":
        of_conda = distributions.of_conda(name)
        if not of_conda or of_conda.startswith("apt:"):  # for the system, or a question
            return None
        project = canonicalize_name(of_conda)
    project = canonicalize_name(distributions.stand_ins.get(project, project))
    if project in decision.requirements or project == canonicalize_name(decision.project or ""):
        return None
    one = valid_requirement(statement.value)
    if one and (one.marker or one.url):  # not for this Python, or a question
        return None
    return Overruled(statement.value, statement.origin, "no code imports it, and other files declare what is needed")


def _of_other_project(statement: Statement, decision: Decision) -> Overruled | None:
    """One line for each file that was passed over as a whole."""
    if statement.subject not in ("package", "conda", "apt"):
        return None
    file = statement.origin.file
    return Overruled(
        f"what {file} installs", statement.origin, f"it is not for {decision.project or decision.name} itself"
    )


def _has(choices: Collection[Choice], value: str) -> bool:
    return any(choice.value == value for choice in choices)
