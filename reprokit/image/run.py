"""One run of a builder: its events go to the log, to the display, and to the explanation of a failure."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit.display import Notify
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.explain.last import OutputRecording, causes_of, shown
from reprokit.explain.remedy import Subject
from reprokit.formatting import binary_size
from reprokit.host import disk
from reprokit.host.kills import KernelWatch
from reprokit.host.machine import fitting_jobs
from reprokit.image.buildkit import BuildKit
from reprokit.image.classic import Classic, keep_last_good
from reprokit.image.events import BuildPlan, BuildStep, Built, Event, Failed, Note, OutputLine
from reprokit.image.failure import build_error
from reprokit.image.inputs import Inputs
from reprokit.image.labels import labels
from reprokit.image.made import BuildSteps
from reprokit.image.record import Log, write_record
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway

OnEvent = Callable[[Event], None]
# Of the classic builder, and of BuildKit.
_EXIT_CODE = re.compile(r"(?:returned a non-zero code|exit code): (\d+)\s*$")
# How compilers, shells and Python report a process that was killed.
_KILLED = re.compile(rb"(?i)\bkilled\b|signal 9|SIGKILL|status -9")
BUILDERS: dict[str, type[Classic | BuildKit]] = {"classic": Classic, "buildkit": BuildKit}


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """`forced` are the errors of `check` that `--force` ignores.

    `offline` uses no network, `drift` replaces locked apt packages that no mirror has any more by their successors, and
    `record` lets a build download more than its lock names, lists that, and keeps no image. `unverified` accepts an
    image with the same inputs in its label, whoever built it. `name` replaces the image's own name. `secrets` are
    values by name.
    """

    builder: str = "classic"
    no_cache: bool = False
    keep_failed: bool = False
    offline: bool = False
    drift: bool = False
    record: bool = False
    forced: list[str] = field(default_factory=list)
    unverified: bool = False
    name: str = ""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def check_options(options: BuildOptions) -> None:
    """Raises UsageError if options exclude each other."""
    if options.builder not in BUILDERS:
        raise UsageError(f"unknown builder {options.builder!r}", hint=f"builders: {', '.join(BUILDERS)}")
    if options.keep_failed and options.builder != "classic":
        raise UsageError(
            "--keep-failed needs the classic builder: BuildKit makes no image of a failed build",
            hint="leave out --builder, or use --builder classic",
        )
    if options.offline and (options.drift or options.record):
        other = "--drift" if options.drift else "--record"
        raise UsageError(f"--offline cannot be combined with {other}, which needs a network")


def check_host(engine: Engine, target: Target, notify: Notify) -> None:
    """Warn if disk space is short. Raises EngineError if the engine is on another machine."""
    if not engine.url.startswith("unix://"):
        raise EngineError(
            "the engine is on another machine, where a build cannot reach reprokit's gateway",
            engine.url,
            "run reprokit on that machine, or build there with `reprokit render` and `docker build`",
        )
    info = engine.info()
    free = disk.free_bytes(info.get("DockerRootDir") or disk.ENGINE_ROOT)
    if free is not None and free < target.variant.requires.disk:
        notify(
            f"disk space may run out below {info.get('DockerRootDir')}: {target.label} needs "
            f"{binary_size(target.variant.requires.disk)}, {binary_size(free)} free"
        )


@dataclass
class BuilderRun:
    """One build by one builder."""

    engine: Engine
    target: Target
    options: BuildOptions
    inputs: Inputs
    gateway: Gateway
    progress: OnEvent
    network: str = "host"

    def __post_init__(self) -> None:
        self.log = Log(self.target)
        self.outputs: dict[int, OutputRecording] = {}
        self.step = 0
        self.started = time.time()
        self.kernel = KernelWatch()
        self.labels = labels(self.target, self.inputs, self.options.forced)
        self.builder = BUILDERS[self.options.builder](self.engine)

    def result(self) -> tuple[str, Path]:
        """Build; returns the image's ID and the record. In any case the log is closed and the record written."""
        self.progress(Note(f"log {self.log.path}"))
        self.log.line(f"# {self.target.label}, inputs {self.inputs.hash}, base {self.inputs.base.described}")
        result: dict[str, Any] = {"builder": self.options.builder, "result": "interrupted"}
        image_id = ""
        try:
            with self.kernel:
                end = self._last_event()
                if isinstance(end, Failed):
                    result |= {"block": end.block, "step": end.step}
                    raise self._failure(end)
            image_id = end.image_id
            result |= {"result": "built", "image": image_id}
        except ReprokitError as error:
            result |= {"result": "failed", "message": error.message}
            raise
        finally:
            self.log.line(f"# {result['result']}")
            self.log.close()
            record = write_record(self.target, self.inputs, self.gateway, self.log, result)
            self._record_steps(image_id)
            if self.options.record:
                self._steps.drop(self.engine)
        return image_id, record

    def _record_steps(self, image_id: str = "") -> None:
        with suppress(ReprokitError):  # the build's own error is the one to report
            self._steps.record(self.engine, image_id)

    @property
    def _steps(self) -> BuildSteps:
        return BuildSteps(self.target, self.inputs.base.image_id, self.builder.states, self.started)

    def _last_event(self) -> Built | Failed:
        plan = BuildPlan(
            name=self.options.name,
            rendered=self.inputs.rendered,
            base_id=self.inputs.base.image_id,
            base_name=self.inputs.base.name,
            arguments=self.inputs.arguments,
            proxies=self.gateway.build_arguments(),
            labels=self.labels,
            no_cache=self.options.no_cache,
            network=self.network,
        )
        events = self.builder.run(plan)
        try:
            for event in events:
                if isinstance(event, Built | Failed):
                    return event
                self._report(event)
        finally:
            events.close()
        raise EngineError("the build ended without a result", plan.name)

    def _report(self, event: Event) -> None:
        if isinstance(event, OutputLine):
            event = OutputLine(self.gateway.hide(event.line))
            self._output.write(f"{event.line}\n".encode("utf-8", "replace"))
            self.log.output(event.line)
        elif isinstance(event, BuildStep):
            self.step = event.number
            if self.options.builder == "classic":  # one step after the other: the output of earlier ones is not needed
                self.outputs.clear()
            self.log.line(f"[{event.number}/{event.total}] {event.block}: {event.text}")
        self.progress(event)

    @property
    def _output(self) -> OutputRecording:
        """The current step's: BuildKit mixes the output of several stages."""
        return self.outputs.setdefault(self.step, OutputRecording())

    def _failure(self, end: Failed) -> ReprokitError:
        message = self.gateway.hide(end.message)
        if self.log.cut:
            self.log.line("# beginning and end of the failed step's output:")
            self.log.line(self._output.content().decode("utf-8", "replace"))
        self.log.line(message)
        subject = Subject(self.target, end.block)
        causes = causes_of(self._output, self._facts(message), subject)
        error = build_error(self.target, end, message, causes, self.gateway, self._output.content())
        hints = [error.hint, f"{'log, without all output' if self.log.cut else 'complete log'}: {self.log.path}"]
        if self.options.keep_failed:
            self._record_steps()
            hints.append(keep_last_good(self.engine, self.target, end, self.inputs.base.image_id, self.labels))
        error.hint = "\n      ".join(hint for hint in hints if hint)
        error.explanation, error.causes, error.log_kept = shown(causes, subject), tuple(causes), True
        return error

    def _facts(self, message: str) -> list[str]:
        """Lines about what the failed step's output does not say."""
        facts = [f"reprokit gateway: undeclared download: {name}" for name in sorted(self.gateway.refused)]
        match = _EXIT_CODE.search(message)
        if match is None:
            return [*facts, message]
        code = int(match[1])
        killed, largest = self.kernel.killed()
        # Another program of this machine may have been killed meanwhile.
        if killed and (code == 128 + signal.SIGKILL or _KILLED.search(self._output.content())):
            jobs = fitting_jobs(os.cpu_count() or 1, largest)
            text = f"reprokit: out of memory during the build: the kernel killed {killed}; MAX_JOBS={jobs} fits"
            return [*facts, text]
        return [*facts, *self.kernel.signal_facts(code)]
