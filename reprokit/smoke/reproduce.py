"""From check to report in one call, which continues at the step that failed before."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

from reprokit import __version__
from reprokit.bench.checkout import checkout_of
from reprokit.bench.measure import bench
from reprokit.bench.records import groups_here, of, results_file
from reprokit.bench.run import Rounds
from reprokit.compat.facts import bundled
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, WorkFailed
from reprokit.host import workspace
from reprokit.image.build import build, engine_errors_of
from reprokit.image.labels import image_name
from reprokit.image.lock.fit import errors_of
from reprokit.image.lock.read import fresh_lock, variant_lock
from reprokit.image.lock.supplies import fetch
from reprokit.image.lock.write import lock
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.results.claims import judge
from reprokit.results.reproduction import NAMES, Journal, ReproductionStep, attempt, blocked
from reprokit.smoke import result
from reprokit.smoke.run import trials
from reprokit.untrusted.files import stamp_of


def reproduce(
    target: Target, label: str, repeat: int = 5, again: bool = False
) -> tuple[Journal, list[ReproductionStep]]:
    """Check, lock, fetch, build, try and measure a variant, and judge its claims; returns all steps.

    `label` is the user's name of the variant, `repeat` the runs of each benchmark. Steps that were done before are not
    repeated unless `again`. What this machine cannot do is skipped. Save the journal at the end. Raises UsageError.
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
        # What is fetched is locked: it changes no result.
        journal.add(outcome, ran=not needless and step != "fetch")
    return journal, [journal.steps[step] for step in NAMES]


def _actions(target: Target, repeat: int) -> Mapping[str, Callable[[], object]]:
    """What the steps do, by name."""

    def build_image() -> None:
        errors_of(target, False)  # those of the lock too
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
        return "a claim is not reproduced" if any(each.verdict == "not reproduced" for each in judged) else ""

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
    """All that the steps depend on. If any of it changes, all steps are done again."""

    folder = workspace.locate(target.workspace, target.path)
    # Machines may share the state folder. A user may have removed the results.
    parts = [target.recipe.model_dump_json(), str(repeat), __version__, platform.node()]
    for part in (
        lambda: str(_has_results(target)),
        lambda: render(target).digest,
        lambda: str((lock := variant_lock(target)) and lock.hash),
        lambda: str(checkout_of(folder)),
        lambda: stamp_of(folder) if folder.is_dir() else "",
        lambda: (Engine.connect().image(image_name(target)) or {}).get("Id", ""),
    ):
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
