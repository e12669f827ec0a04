"""`reprokit new --repair`: build and try an imported recipe, and apply the changes of `explain` until it works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reprokit.bench.hardware import Execute
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError, UsageError, WorkFailed
from reprokit.explain.last import explained
from reprokit.formatting import counted
from reprokit.host.disk import unwritable
from reprokit.image.build import build
from reprokit.image.lock.fit import errors_of
from reprokit.image.lock.resolve import lock
from reprokit.importing.decision import ImportedRecipe
from reprokit.importing.repair import Failure, Fit, RepairLoop, Round, WheelChanges, page
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.smoke.run import CommandFailed, fresh_container, judge, title
from reprokit.untrusted.files import current


def page_path(recipe: Path) -> Path:
    """The path of a recipe's page, beside the recipe."""
    return recipe.with_suffix(".md")


def repair(path: Path, source: str, imported: ImportedRecipe, versions: WheelChanges) -> str:
    """Repair the recipe in `path`; returns a line about the result.

    Raises WorkFailed if it still fails; the recipe and its page are kept.
    """
    engine, name = Engine.connect(), path.stem
    variant = find.target(name).variant_name

    def keep(rounds: Sequence[Round], state: str, works: bool = False) -> None:
        replace_text(page_path(path), page(name, source, imported, rounds, state, works))

    def kept(rounds: Sequence[Round]) -> None:
        keep(rounds, "The repair was interrupted" if rounds[-1].changes else "It still fails")
        for line in rounds[-1].changes:
            notify(f"  round {len(rounds)}: {line}")

    fit = Fit(versions.facts, versions.of)
    loop = RepairLoop(
        name,
        variant,
        imported.text,
        lambda: attempt(engine, name),
        versions.of,
        fit,
        lambda t: replace_text(path, t),
        kept,
    )
    keep((), "The repair was interrupted")
    rounds = loop.run()
    last = rounds[-1] if rounds else None
    if last and not last.changes:
        failure = last.failures[0]
        keep(rounds, f"It still fails: {failure.step}")
        error = WorkFailed(f"{name}:{variant} still fails: {failure.step}: {failure.message}", str(page_path(path)))
        error.hint = f"edit {path}, then `reprokit lock {name}` and `reprokit smoke {name}`"
        raise error
    keep(rounds, "It builds, and its smoke commands succeed", works=True)
    changes = counted(sum(len(r.changes) for r in rounds), "change")
    return f"{name}:{variant} works, with {changes} in {counted(len(rounds), 'round')}; {page_path(path)} says why"


def attempt(engine: Engine, name: str) -> list[Failure]:
    """Check, lock, build and try a recipe; returns the failures."""
    target, step = find.target(name), "check"
    try:
        errors_of(target, False)
        step = "lock"
        with explained():
            lock(engine, target)
        step = "build"
        build(engine, target)
        step = "container"
        with fresh_container(engine, target) as execute:
            return list(_tried(target, execute))
    except (WorkFailed, SourceError, UsageError) as error:
        return [_failure(step, error)]


def _tried(target: Target, execute: Execute) -> Iterator[Failure]:
    """The failures of the smoke commands, except those that need a GPU."""
    for command in target.recipe.smoke:
        if command.gpu:
            continue
        notify(f"{target.label}: {title(command)}")
        try:
            judge(target, command, execute(["bash", "-c", command.command], workdir=target.variant.workdir))
        except CommandFailed as error:
            yield _failure(title(command), error)


def _failure(step: str, error: ReprokitError) -> Failure:
    where = f" ({error.where})" if error.where else ""
    return Failure(step, f"{error.message}{where}", error.causes)


def replace_text(path: Path, text: str) -> None:
    try:
        with current() as folder, folder.replacing(str(path)) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:
        raise unwritable(error, "the file", path) from None
