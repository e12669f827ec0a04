"""The steps from check to report: which are done, which are due, and why others were skipped. Pure but for its file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from reprokit import paths
from reprokit.errors import Absent, EngineError, ReprokitError, SourceError, UsageError
from reprokit.recipe.find import Target
from reprokit.tables import ReportTable
from reprokit.untrusted import files
from reprokit.untrusted.documents import parsed

# Each needs the one before it, unless NEEDS says otherwise.
NAMES = ("check", "lock", "fetch", "build", "smoke", "bench", "claims")
NEEDS = {"check": (), "lock": ("check",), "fetch": ("check",), "build": ("check",), "claims": ()}
_MOST = 1 << 20

Status = Literal["done", "failed", "skipped"]


@dataclass(frozen=True)
class ReproductionStep:
    """One step. `command` is what a user would type for it, `exit_code` that of a failure or of what cannot run."""

    name: str
    command: str
    status: Status
    reason: str = ""
    exit_code: int = 0


class Journal:
    """The steps of the last try, in reprokit's state folder.

    `state` is a text that differs if steps have to be done again. Steps change it themselves: they lock and build.
    """

    def __init__(self, target: Target, fresh: bool, state: Callable[[], str]) -> None:
        self._state = state
        name = hashlib.sha256(os.fsencode(Path.cwd()) + b"\0" + target.label.encode()).hexdigest()[:32]
        self._path = paths.private(paths.state() / "reproduce") / f"{name}.json"
        self.steps: dict[str, ReproductionStep] = {} if fresh else self._read()

    def add(self, step: ReproductionStep, ran: bool = True) -> None:
        """Keep a step. One that `ran` now removes the later ones: they were done without its result."""
        later = NAMES[NAMES.index(step.name) + 1 :] if ran and step.status == "done" else ()
        self.steps = {name: each for name, each in self.steps.items() if name not in later}
        self.steps[step.name] = step
        self.save()

    def save(self) -> None:
        """Keep the steps as those of the present state."""
        data = {"key": self._key(), "steps": [asdict(each) for each in self.steps.values()]}
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(data), encoding="utf-8")
        temporary.replace(self._path)

    def _key(self) -> str:
        return hashlib.sha256(self._state().encode()).hexdigest()

    def _read(self) -> dict[str, ReproductionStep]:
        try:
            data = parsed(files.read(self._path, _MOST))
            found = [ReproductionStep(**step) for step in data["steps"]] if data["key"] == self._key() else []
        except (OSError, ValueError, TypeError, KeyError):
            return {}
        return {step.name: step for step in found if step.status == "done"}


def blocked(name: str, steps: dict[str, ReproductionStep]) -> str:
    """Why a step cannot run after those before it, or ""."""
    before = NEEDS.get(name, NAMES[NAMES.index(name) - 1 : NAMES.index(name)])
    missing = next((steps[each] for each in before if steps[each].status != "done"), None)
    return f"{missing.name} {'failed' if missing.status == 'failed' else 'was skipped'}" if missing else ""


def attempt(name: str, command: str, action: Callable[[], object]) -> ReproductionStep:
    """Run a step. What this machine or the network cannot do is skipped with the reason; other errors are failures.

    A text that the action returns is a remark on a step that was done.
    """
    try:
        done = action()
    except ReprokitError as error:
        remedy = f" ({error.hint})" if error.hint and isinstance(error, UsageError) else ""
        status: Status = "skipped" if isinstance(error, EngineError | SourceError | Absent) else "failed"
        return ReproductionStep(name, command, status, error.message + remedy, error.exit_code)
    return ReproductionStep(name, command, "done", done if isinstance(done, str) else "")


def exit_code(steps: Sequence[ReproductionStep]) -> int:
    """That of the first failure. Where nothing ran in the image, that of the first step that this machine skipped."""
    ran = any(step.status == "done" for step in steps if step.name in ("smoke", "bench"))
    ends = [step for step in steps if step.status == "failed"] or ([] if ran else steps)
    return next((step.exit_code for step in ends if step.exit_code), 0)


def as_table(steps: Sequence[ReproductionStep]) -> ReportTable:
    rows = tuple((step.name, step.status, step.reason, step.command) for step in steps)
    return ReportTable("Steps", "", ("step", "status", "reason", "command"), rows, words=(0, 1, 2, 3))
