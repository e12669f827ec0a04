"""Reproduce a variant from check to report: steps that are done, due or skipped, with reasons."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from reprokit import __version__, paths
from reprokit.bench.checkout import checkout_of
from reprokit.bench.measure import bench
from reprokit.bench.records import groups_here, of, results_file
from reprokit.bench.run import Rounds
from reprokit.compat.facts import bundled
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import Absent, EngineError, ReprokitError, SourceError, UsageError, WorkFailed
from reprokit.host import workspace
from reprokit.image.build import build, engine_errors_of
from reprokit.image.labels import image_name
from reprokit.image.lock.fit import errors_of
from reprokit.image.lock.read import fresh_lock, variant_lock
from reprokit.image.lock.resolve import lock
from reprokit.image.lock.supplies import fetch
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.results.claims import judge
from reprokit.smoke import result
from reprokit.smoke.run import trials
from reprokit.tables import ReportTable
from reprokit.untrusted import files
from reprokit.untrusted.documents import parsed

# Each step needs the previous one, unless NEEDS names others.
NAMES = ("check", "lock", "fetch", "build", "smoke", "bench", "claims")
NEEDS = {"check": (), "lock": ("check",), "fetch": ("check",), "build": ("check",), "claims": ()}
_MOST = 1 << 20

Status = Literal["done", "failed", "skipped"]


@dataclass(frozen=True)
class ReproductionStep:
    """One step. `command` is its command line, `exit_code` that of a failed or skipped step."""

    name: str
    command: str
    status: Status
    reason: str = ""
    exit_code: int = 0


class Journal:
    """The steps of the last attempt, in reprokit's state folder.

    `state` returns a text that changes if steps must be repeated. Steps change it too: they lock and build.
    """

    def __init__(self, target: Target, fresh: bool, state: Callable[[], str]) -> None:
        self._state = state
        name = hashlib.sha256(os.fsencode(Path.cwd()) + b"\0" + target.label.encode()).hexdigest()[:32]
        self._path = paths.private(paths.state() / "reproduce") / f"{name}.json"
        self.steps: dict[str, ReproductionStep] = {} if fresh else self._read()

    def add(self, step: ReproductionStep, ran: bool = True) -> None:
        """Store a step. If it `ran` now, later steps are removed: they used its old result."""
        later = NAMES[NAMES.index(step.name) + 1 :] if ran and step.status == "done" else ()
        self.steps = {name: earlier for name, earlier in self.steps.items() if name not in later}
        self.steps[step.name] = step
        self.save()

    def save(self) -> None:
        """Store the steps under the present state."""
        data = {"key": self._key(), "steps": [asdict(step) for step in self.steps.values()]}
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(data), encoding="utf-8")
        temporary.replace(self._path)

    def _key(self) -> str:
        return hashlib.sha256(self._state().encode()).hexdigest()

    def _read(self) -> dict[str, ReproductionStep]:
        try:
            data = parsed(files.read(self._path, _MOST))
            steps = [ReproductionStep(**step) for step in data["steps"]] if data["key"] == self._key() else []
        except (OSError, ValueError, TypeError, KeyError):
            return {}
        return {step.name: step for step in steps if step.status == "done"}


def reproduce(
    target: Target, label: str, repeat: int = 5, again: bool = False
) -> tuple[Journal, list[ReproductionStep]]:
    """Check, lock, fetch, build, try and measure a variant, and judge its claims; returns all steps.

    `label` is the user's name of the variant, `repeat` the runs of each benchmark. Steps are repeated only if `again`
    or not done; those that this machine cannot do are skipped. Save the journal at the end. Raises UsageError.
    """
    journal = Journal(target, again, lambda: _state(target, repeat))
    actions = _actions(target, repeat)
    for number, step in enumerate(NAMES, 1):
        if step in journal.steps and step != "claims":
            notify(f"{number}/{len(NAMES)} {step}: done before")
            continue
        verb = "results claims" if step == "claims" else step
        command = f"reprokit {verb} {label}" + (f" --repeat {repeat}" if step == "bench" else "")
        notify(f"{number}/{len(NAMES)} {step}")
        needless = ""
        if reason := blocked(step, journal.steps):
            outcome = ReproductionStep(step, command, "skipped", reason)
        elif step in ("lock", "fetch") and (needless := _needless(step, target)):
            outcome = ReproductionStep(step, command, "done", needless)
        else:
            outcome = attempt(step, command, actions[step])
        if outcome.status != "done":
            notify(f"  {outcome.status}: {outcome.reason}")
        # Fetching changes no result: inputs are locked.
        journal.add(outcome, ran=not needless and step != "fetch")
    return journal, [journal.steps[step] for step in NAMES]


def _actions(target: Target, repeat: int) -> Mapping[str, Callable[[], object]]:
    """The actions of the steps, by name."""

    def build_image() -> None:
        errors_of(target, False)  # also errors of the lock
        engine = Engine.connect()
        engine_errors_of(engine, target, False)
        build(engine, target)

    def smoke() -> None:
        for trial in trials(Engine.connect(), [target], ()):
            notify(trial.line())
            if result.exit_code([trial]) == 3:
                raise EngineError("this machine cannot run it")
            if result.exit_code([trial]):
                raise WorkFailed(next((step.reason for step in trial.steps if step.status == "fail"), "it failed"))

    def measure() -> None:
        file = results_file(target.recipe.name)
        bench(target, file=file, rounds=Rounds(repeat)).raise_failure()

    def claims() -> str:
        judged = judge(target.recipe, groups_here(target.recipe.name), bundled())
        return "a claim is not reproduced" if any(claim.verdict == "not reproduced" for claim in judged) else ""

    return {
        "check": lambda: errors_of(target, False),
        "lock": lambda: lock(Engine.connect(), target),
        "fetch": lambda: fetch([target]),
        "build": build_image,
        "smoke": smoke,
        "bench": measure,
        "claims": claims,
    }


def _state(target: Target, repeat: int) -> str:
    """A text of everything that the steps depend on; all steps are repeated if it changes."""

    folder = workspace.locate(target.workspace, target.path)
    # Machines may share the state folder. A user may have removed the results.
    parts = [target.recipe.model_dump_json(), str(repeat), __version__, platform.node()]
    more: tuple[Callable[[], str], ...] = (
        lambda: str(_has_results(target)),
        lambda: render(target).digest,
        lambda: str((lock := variant_lock(target)) and lock.hash),
        lambda: str(checkout_of(folder)),
        lambda: files.stamp_of(folder) if folder.is_dir() else "",
        lambda: Engine.connect().image_id(image_name(target)),
    )
    for part in more:
        try:
            parts.append(part())
        except (ReprokitError, OSError) as error:
            parts.append(str(error))
    return "\n".join(parts)


def _has_results(target: Target) -> bool:
    """Whether there is a record of the recipe and variant."""
    return bool(of(groups_here(target.recipe.name), target.label))


def _needless(step: str, target: Target) -> str:
    """Why a step has nothing to do, or "". A stale lock is locked again."""
    try:
        lock = fresh_lock(target, render(target))
    except WorkFailed:
        return ""
    if step == "lock":
        return "it is locked" if lock else ""
    return "" if lock else "without a lock, the build fetches"


def blocked(name: str, steps: dict[str, ReproductionStep]) -> str:
    """Why a step cannot run after those before it, or ""."""
    before = NEEDS.get(name, NAMES[NAMES.index(name) - 1 : NAMES.index(name)])
    missing = next((steps[earlier] for earlier in before if steps[earlier].status != "done"), None)
    return f"{missing.name} {'failed' if missing.status == 'failed' else 'was skipped'}" if missing else ""


def attempt(name: str, command: str, action: Callable[[], object]) -> ReproductionStep:
    """Run a step. Errors of the machine or network skip it; other errors are failures.

    A text that the action returns is a remark on the step.
    """
    try:
        done = action()
    except ReprokitError as error:
        remedy = f" ({error.hint})" if error.hint and isinstance(error, UsageError) else ""
        status: Status = "skipped" if isinstance(error, EngineError | SourceError | Absent) else "failed"
        return ReproductionStep(name, command, status, error.message + remedy, error.exit_code)
    return ReproductionStep(name, command, "done", done if isinstance(done, str) else "")


def exit_code(steps: Sequence[ReproductionStep]) -> int:
    """The exit code of the first failure; if nothing ran in the image, that of the first skipped step."""
    ran = any(step.status == "done" for step in steps if step.name in ("smoke", "bench"))
    ends = [step for step in steps if step.status == "failed"] or ([] if ran else steps)
    return next((step.exit_code for step in ends if step.exit_code), 0)


def as_table(steps: Sequence[ReproductionStep]) -> ReportTable:
    rows = tuple((step.name, step.status, step.reason, step.command) for step in steps)
    return ReportTable("Steps", "", ("step", "status", "reason", "command"), rows, words=(0, 1, 2, 3))
