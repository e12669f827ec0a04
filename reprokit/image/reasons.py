"""Why a build runs a step again: the facts of its steps are kept and compared with the next build's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from reprokit import paths
from reprokit.recipe.find import Target
from reprokit.supply.store import key_of
from reprokit.untrusted.files import Folder

_MOST = 16 << 20
# Build arguments with the address of a set of inputs: REPROKIT_APT_PYTHON, REPROKIT_WHEELS.
_SET = re.compile(r"REPROKIT_([A-Z]+)(?:_\w+)?")


@dataclass(frozen=True)
class StepFacts:
    """The dependencies of one step: hashes of its text, each variable, the copied files, and the stage's base."""

    place: str
    text: str
    variables: Mapping[str, str]
    copies: str
    base: str


def facts(place: str, text: str, variables: Mapping[str, str], copies: str, base: str) -> StepFacts:
    """`place` is the step's position in its Dockerfile; steps at the same position are compared."""
    hashed = {name: key_of(value)[:16] for name, value in variables.items()}
    return StepFacts(place, key_of(text)[:16], hashed, copies[:16], base[:16])


def reason(now: StepFacts, earlier: Sequence[StepFacts]) -> str:
    """The difference from the same step of the last build, in a few words."""
    before = next((step for step in earlier if step.place == now.place), None)
    if before is None:
        return "it is new"
    if before.base != now.base:
        return "the base changed"
    if before.text != now.text:
        return "its instruction changed"
    changed = sorted(
        name
        for name in before.variables.keys() | now.variables.keys()
        if before.variables.get(name) != now.variables.get(name)
    )
    if changed:
        sets = [match[1].lower() if (match := _SET.fullmatch(name)) else name for name in changed]
        return f"changed: {', '.join(dict.fromkeys(sets))}"
    return "what it copies changed" if before.copies != now.copies else "its image is gone"


def last(target: Target) -> list[StepFacts]:
    """The steps of the last build of a variant; none if unknown."""
    try:
        with Folder(_folder()) as folder:
            return [StepFacts(**step) for step in json.loads(folder.read(_name(target), _MOST))]
    except (OSError, ValueError, TypeError):
        return []


def keep(target: Target, steps: Sequence[StepFacts]) -> None:
    """Keep the steps of a build. Raises OSError."""
    with Folder(_folder()) as folder, folder.replacing(_name(target)) as file:
        file.write(json.dumps([asdict(step) for step in steps]).encode())


def _folder() -> Path:
    return paths.private(paths.state() / "steps")


def _name(target: Target) -> str:
    return f"{target.recipe.name}-{target.variant_name}.json"
