"""Try one variant of a recipe: check, build, and smoke commands in a fresh container."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from reprokit.bench.hardware import Execute, probe
from reprokit.container.execute import Completed
from reprokit.errors import ReprokitError, WorkFailed
from reprokit.explain.last import explain_by, keep_error
from reprokit.explain.remedy import Subject
from reprokit.recipe.find import Target
from reprokit.recipe.model import Smoke
from reprokit.smoke.result import TrialResult, TrialStep
from reprokit.untrusted.patterns import compiled

NO_GPU = "it needs a GPU, and this machine has none"
_KEPT_OUTPUT = 20_000
_T = TypeVar("_T")


class CommandFailed(WorkFailed):
    """A smoke command failed or its output was unexpected. `output` keeps the end of it; `facts` are those of it."""

    def __init__(self, message: str, target: Target, output: str, facts: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.output = output[-_KEPT_OUTPUT:]
        explain_by(self, output, facts, Subject(target))


@dataclass
class Trial:
    """The actions of a trial. Each raises a ReprokitError where it fails.

    `container` yields a function that runs commands in a fresh container, which is removed at the end; `on_step` is
    called with the name of each step before it begins.
    """

    check: Callable[[Target], object]
    build: Callable[[Target], object]
    container: Callable[[Target], AbstractContextManager[Execute]]
    on_step: Callable[[Target, str], None] = field(default=lambda target, name: None)

    def run(self, target: Target) -> TrialResult:
        """Run all steps. A failed command stops no other; any other failure ends the trial."""
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
        """A container, and whether it has a GPU where a command needs one."""
        execute = stack.enter_context(self.container(target))
        return execute, gpu and probe(execute).has_gpu

    def _command(self, steps: list[TrialStep], target: Target, command: Smoke, execute: Execute) -> None:
        argv, workdir = ["bash", "-c", command.command], target.variant.workdir
        self._step(steps, target, title(command), lambda: judge(target, command, execute(argv, workdir=workdir)))

    def _step(self, steps: list[TrialStep], target: Target, name: str, action: Callable[[], _T]) -> _T:
        self.on_step(target, name)
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


def judge(target: Target, command: Smoke, done: Completed) -> None:
    """Raises CommandFailed where the command failed, or its output does not match what the recipe expects."""
    output = done.stdout + done.stderr
    if done.exit_code:
        last = output.strip().splitlines()[-1:] or ["no output"]
        raise CommandFailed(f"exit code {done.exit_code}: {last[0][:200]}", target, output, done.facts)
    if command.expect and not compiled(command.expect, multiline=True).search(output):
        raise CommandFailed(f"its output has no match for {command.expect!r}", target, output)


def title(command: Smoke) -> str:
    """The first line of a command, shortened."""
    first, *rest = command.command.strip().splitlines() or [""]
    return first if len(first) <= 80 and not rest else f"{first[:77]}..."
