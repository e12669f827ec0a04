"""Try one variant of a recipe: check, build, and smoke commands in a fresh container."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from reprokit.bench.container import container_of_run, gpus_for
from reprokit.bench.hardware import Execute, probe
from reprokit.container.execute import Completed, execute
from reprokit.container.launch import usable_image
from reprokit.container.settings import RunOptions
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, WorkFailed
from reprokit.explain.last import explain_by, keep_error
from reprokit.explain.remedy import Subject
from reprokit.host.fit import in_words, recipe_findings
from reprokit.host.gpu import Gpu
from reprokit.image.build import free_disk
from reprokit.image.labels import image_name
from reprokit.image.lock.fit import errors_of
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.recipe.model import Smoke
from reprokit.smoke.result import TrialResult, TrialStep
from reprokit.untrusted.patterns import compiled

NO_GPU = "it needs a GPU, and this machine has none"
_KEPT_OUTPUT = 20_000
_T = TypeVar("_T")


class CommandFailed(WorkFailed):
    """A smoke command failed or its output was unexpected. `output` is the end of its output, `facts` its evidence."""

    def __init__(self, message: str, target: Target, output: str, facts: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.output = output[-_KEPT_OUTPUT:]
        explain_by(self, output, facts, Subject(target))


@dataclass
class Trial:
    """The actions of a trial. Each raises a ReprokitError if it fails; `container` is `fresh_container`."""

    check: Callable[[Target], object]
    build: Callable[[Target], object]
    container: Callable[[Target], AbstractContextManager[Execute]]

    def run(self, target: Target) -> TrialResult:
        """Run all steps. A failed command does not stop the others; any other failure ends the trial."""
        steps: list[TrialStep] = []
        commands = [s for s in target.recipe.smoke if not s.variants or target.variant_name in s.variants]
        failed = 0
        with ExitStack() as stack:
            try:
                self._step(steps, target, "check", lambda: self.check(target))
                self._step(steps, target, "build", lambda: self.build(target))
                opened = partial(self._open, stack, target, any(command.gpu for command in commands))
                execute, has_gpu = self._step(steps, target, "container", opened)
                for command in commands:
                    if command.gpu and not has_gpu:
                        steps.append(TrialStep(title(command), "skip", reason=NO_GPU))
                        continue
                    with suppress(CommandFailed):
                        self._command(steps, target, command, execute)
            except ReprokitError as error:
                failed = error.exit_code
        if not failed:
            failed = int(any(step.status == "fail" for step in steps))
        return TrialResult(target.label, tuple(steps), failed)

    def _open(self, stack: ExitStack, target: Target, gpu: bool) -> tuple[Execute, bool]:
        """A container, and whether it has a GPU if a command needs one."""
        execute = stack.enter_context(self.container(target))
        return execute, gpu and probe(execute).has_gpu

    def _command(self, steps: list[TrialStep], target: Target, command: Smoke, execute: Execute) -> None:
        argv, workdir = ["bash", "-c", command.command], target.variant.workdir
        self._step(steps, target, title(command), lambda: judge(target, command, execute(argv, workdir=workdir)))

    def _step(self, steps: list[TrialStep], target: Target, name: str, action: Callable[[], _T]) -> _T:
        notify(f"{target.label}: {name}")
        started = time.monotonic()
        try:
            result = action()
        except ReprokitError as error:
            keep_error(error, Subject(target))
            reason = f"{error.message} ({error.where})" if error.where else error.message
            output = error.output if isinstance(error, CommandFailed) else f"{reason}\n{error.hint}".strip()
            if error.explanation:
                output = "\n".join([output.rstrip("\n"), *error.explanation])
            steps.append(TrialStep(name, "fail", time.monotonic() - started, reason, output))
            raise
        steps.append(TrialStep(name, "pass", time.monotonic() - started))
        return result


def trials(engine: Engine, chosen: Sequence[Target] | None, names: Sequence[str]) -> Iterator[TrialResult]:
    """The result of each target; if `chosen` is None, of all variants of `names` that this host can run."""
    trial = Trial(partial(errors_of, force=False), partial(usable_image, engine), partial(fresh_container, engine))
    gpus = engine.host.gpus() if chosen is None else []
    for target in chosen if chosen is not None else _current(names):
        if isinstance(target, TrialResult):
            yield target
        elif chosen is None and (reason := _not_here(engine, target, gpus)):
            yield TrialResult(target.label, (TrialStep("host", "skip", reason=reason),))
        else:
            yield trial.run(target)


def _current(names: Sequence[str]) -> Iterator[Target | TrialResult]:
    """Every variant that is not historic; an unreadable recipe is a failure and does not stop the others."""
    for name in names:
        try:
            yield from find.current_targets([name])
        except ReprokitError as error:
            reason = f"{error.message} ({error.where})"
            yield TrialResult(name, (TrialStep("recipe", "fail", reason=reason, output=reason),), error.exit_code)


def _not_here(engine: Engine, target: Target, gpus: Sequence[Gpu]) -> str:
    """Why this host cannot run the target, or ""."""
    if engine.host.name and engine.image(image_name(target)) is None:
        return f"its image is missing on {engine.host.name}"
    has_gpu = gpus_for(engine, target, None) != "none"
    memory, disk = engine.host.memory_bytes(), free_disk(engine, target)
    findings = recipe_findings(target.variant, has_gpu, gpus, memory, disk)
    return next((in_words(finding) for finding in findings if finding.severity == "error"), "")


@contextmanager
def fresh_container(engine: Engine, target: Target) -> Iterator[Execute]:
    """Yield a function that runs commands in a fresh container, which is removed at the end."""
    options = RunOptions(gpus=gpus_for(engine, target, None))
    with container_of_run(engine, target, "smoke", options) as name:
        yield partial(execute, engine, name)


def judge(target: Target, command: Smoke, done: Completed) -> None:
    """Raises CommandFailed if the command failed, or its output does not match what the recipe expects."""
    output = done.stdout + done.stderr
    if done.exit_code:
        last = output.strip().splitlines()[-1:] or ["no output"]
        raise CommandFailed(f"exit code {done.exit_code}: {last[0][:200]}", target, output, done.facts)
    if command.expect and not compiled(command.expect, multiline=True).search(output):
        raise CommandFailed(f"its output has no match for {command.expect!r}", target, output)


def title(command: Smoke) -> str:
    """The first line of a command, shortened."""
    first, *more = command.command.strip().splitlines() or [""]
    return first if len(first) <= 80 and not more else f"{first[:77]}..."
