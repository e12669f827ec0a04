"""One run of the executor: its events go to the log, to the display, and to the explanation of a failure."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.explain.last import OutputRecording, causes_of, keep_success, shown
from reprokit.explain.remedy import Subject
from reprokit.formatting import binary_size
from reprokit.host import disk
from reprokit.host.kills import KernelWatch
from reprokit.host.machine import fitting_jobs
from reprokit.image import made, reasons, trust
from reprokit.image.copying import file_trees
from reprokit.image.dockerfile import parse
from reprokit.image.events import BuildStep, Event, Failed, OutputLine, StepEnd
from reprokit.image.executor import Executor, Plan
from reprokit.image.failure import build_error
from reprokit.image.inputs import Inputs
from reprokit.image.labels import DOCKERFILE, INPUTS, failed_name, labels
from reprokit.image.record import Log, write_record
from reprokit.image.shell import without_step
from reprokit.image.stage import StepFailed
from reprokit.oci.model import digest_of
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway
from reprokit.supply.store import key_of

OnEvent = Callable[[Event], None]
# Addresses without a proxy: servers that a step starts itself, such as a test's.
_LOCAL = "localhost,127.0.0.1,::1"
_MOST_STAGES = 4  # at once
# How compilers, shells and Python report a process that was killed.
_KILLED = re.compile(rb"(?i)\bkilled\b|signal 9|SIGKILL|status -9")


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """`forced` are the errors of `check` that `--force` ignores.

    `offline` uses no network, `drift` replaces locked apt packages that no mirror has any more by their successors, and
    `record` lets a build download more than its lock names, lists that, and keeps no image. `unverified` accepts an
    image with the same inputs in its label, whoever built it. `name` replaces the image's own name. `secrets` are
    values by name. `gpus` are the API's DeviceRequests, for stages whose product is copied; `memory` (bytes) and `cpus`
    limit each container. `cache_from` and `cache_to` are repositories that steps come from and go to.
    """

    no_cache: bool = False
    keep_failed: bool = False
    offline: bool = False
    drift: bool = False
    record: bool = False
    forced: list[str] = field(default_factory=list)
    unverified: bool = False
    name: str = ""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    gpus: Sequence[Mapping[str, Any]] = ()
    memory: int = 0
    cpus: float = 0.0
    cache_from: str = ""
    cache_to: str = ""


def check_options(options: BuildOptions) -> None:
    """Raises UsageError if options exclude each other."""
    if options.offline and (options.drift or options.record):
        other = "--drift" if options.drift else "--record"
        raise UsageError(f"--offline cannot be combined with {other}, which needs a network")


def check_host(engine: Engine, target: Target) -> None:
    """Warn if disk space is short. Raises EngineError if the engine is on another machine."""
    if not engine.url.startswith("unix://"):
        raise EngineError(
            "the engine is on another machine, where a build cannot reach reprokit's gateway",
            engine.url,
            "run reprokit on that machine, or build there with `reprokit render` and `docker build`",
        )
    root = engine.info().root or disk.ENGINE_ROOT
    free = disk.free_bytes(root)
    if free is not None and free < target.variant.requires.disk:
        notify(
            f"disk space may run out below {root}: {target.label} needs "
            f"{binary_size(target.variant.requires.disk)}, {binary_size(free)} free"
        )


@dataclass(frozen=True)
class StepTime:
    """An instruction of a build, and the seconds that it took."""

    block: str
    text: str
    cached: bool
    seconds: float


@dataclass
class BuildRun:
    """One build; `gateway_socket` is the path at which its steps reach the gateway."""

    engine: Engine
    target: Target
    options: BuildOptions
    inputs: Inputs
    gateway: Gateway
    gateway_socket: Path
    progress: OnEvent

    def __post_init__(self) -> None:
        self.log = Log(self.target)
        self.output = OutputRecording()  # the current step's
        self.all_output = OutputRecording()
        self.kernel = KernelWatch()
        self.labels = labels(self.target, self.inputs, self.options.forced)
        self.steps = made.Steps(
            self.engine, self.target, self.options.record, self.options.cache_from, self.options.cache_to
        )
        self.times: list[StepTime] = []

    def result(self) -> tuple[str, Path]:
        """Build; returns the image's ID and the record. In any case the log is closed and the record written."""
        notify(f"log {self.log.path}")
        self.log.line(f"# {self.target.label}, inputs {self.inputs.hash}, base {self.inputs.base.described}")
        result: dict[str, Any] = {"result": "interrupted"}
        image_id = ""
        try:
            with self.kernel:
                try:
                    executor = Executor(self.engine, self._plan(), self.steps, self._report)
                    image_id = executor.result()
                except StepFailed as failure:
                    result |= {"block": failure.block, "step": failure.step}
                    raise self._failure(failure) from None
            result |= {"result": "built", "image": image_id, "steps": list(map(asdict, self.times))}
            with suppress(OSError):
                reasons.keep(self.target, executor.facts)
            keep_success(self.all_output, Subject(self.target))
        except ReprokitError as error:
            result |= {"result": "failed", "message": error.message}
            raise
        finally:
            self.log.line(f"# {result['result']}")
            self.log.close()
            record = write_record(self.target, self.inputs, self.gateway, self.log, result)
            with suppress(ReprokitError):  # the build's own error is the one to report
                self.steps.finish(image_id)
            if self.options.record:
                self.steps.drop()
        return image_id, record

    def _plan(self) -> Plan:
        rendered, base = self.inputs.rendered, self.inputs.base
        failed = {key: value for key, value in self.labels.items() if key not in (INPUTS, DOCKERFILE)}
        return Plan(
            name=self.options.name,
            dockerfile=parse(rendered.dockerfile),
            block_of=rendered.block_at,
            base_of=lambda reference: base.image_id,
            files=file_trees(rendered.context),
            files_key=key_of({path: digest_of(content) for path, content in rendered.context.items()}),
            arguments=self.inputs.arguments,
            proxies={**self.gateway.build_arguments(), **dict.fromkeys(("no_proxy", "NO_PROXY"), _LOCAL)},
            labels=self.labels,
            settings=self._limits(),
            gpus=self.options.gpus,
            secrets=self.options.secrets,
            gateway=self.gateway_socket,
            no_cache=self.options.no_cache,
            parallel=_stages_at_once(),
            earlier=reasons.last(self.target),
            keep_failed=failed_name(self.target.label) if self.options.keep_failed else "",
            failed_labels=failed,
        )

    def _limits(self) -> dict[str, Any]:
        """No more processors than compilers fit into the free memory: ninja, make and nproc count processors.

        Raises UsageError if the variable MAX_JOBS is no number.
        """
        limits: dict[str, Any] = {}
        if self.options.memory:
            limits |= {"Memory": self.options.memory, "MemorySwap": self.options.memory}
        if self.options.cpus:
            limits["NanoCpus"] = int(self.options.cpus * 10**9)
        processors = sorted(os.sched_getaffinity(0))
        jobs = jobs_of(os.environ.get("MAX_JOBS", ""), len(processors))
        if jobs >= len(processors) or not self.engine.info().limits_processors:
            return limits
        text = f"building with {jobs} of {len(processors)} processors, as many compilers as fit into the memory"
        notify(text)
        return {**limits, "CpusetCpus": ",".join(map(str, processors[:jobs]))}

    def _report(self, event: Event) -> None:
        if isinstance(event, OutputLine):
            event = OutputLine(self.gateway.hide(event.line))
            line = f"{event.line}\n".encode("utf-8", "replace")
            self.output.write(line)
            self.all_output.write(line)
            self.log.output(event.line)
        elif isinstance(event, BuildStep):
            self.output = OutputRecording()
            text = without_step(event.text)
            self.times.append(StepTime(event.block, text, event.cached, 0.0))
            self.log.line(f"[{event.number}/{event.total}] {event.block}: {text}{' (cached)' if event.cached else ''}")
            event = replace(event, text=text)
        elif isinstance(event, StepEnd):
            self.times[-1] = replace(self.times[-1], seconds=event.seconds)
        self.progress(event)

    def _failure(self, failure: StepFailed) -> ReprokitError:
        step = without_step(self.gateway.hide(failure.step))
        end = Failed(failure.block, " ".join(step.split()), failure.message)
        if self.log.cut:
            self.log.line("# beginning and end of the failed step's output:")
            self.log.line(self.output.content().decode("utf-8", "replace"))
        self.log.line(end.message)
        subject = Subject(self.target, end.block)
        causes = causes_of(self.output, self._facts(failure.code), subject)
        error = build_error(self.target, end, end.message, causes, self.gateway, self.output.content())
        hints = [error.hint, f"{'log, without all output' if self.log.cut else 'complete log'}: {self.log.path}"]
        if failure.kept:
            trust.record(self.engine, failure.kept, "built here", "build --keep-failed")
            made.record(self.engine, failure.kept, "failed", self.target.label)
            name = failed_name(self.target.label)
            hints.append(f"what the failed step left is kept as {name}: `reprokit shell {self.target.label} --failed`")
        error.hint = "\n      ".join(hint for hint in hints if hint)
        error.explanation, error.causes, error.log_kept = shown(causes, subject), tuple(causes), True
        return error

    def _facts(self, code: int) -> list[str]:
        """Facts about the failed step that its output does not show."""
        facts = [f"reprokit gateway: undeclared download: {name}" for name in sorted(self.gateway.refused)]
        killed, largest = self.kernel.killed()
        # Another program of this machine may have been killed meanwhile.
        if killed and (code == 128 + signal.SIGKILL or _KILLED.search(self.output.content())):
            jobs = fitting_jobs(os.cpu_count() or 1, largest)
            text = f"reprokit: out of memory during the build: the kernel killed {killed}; MAX_JOBS={jobs} fits"
            return [*facts, text]
        return [*facts, *self.kernel.signal_facts(code)]


def _stages_at_once() -> int:
    """The number of stages that each have memory for compilers on all processors."""
    processors = len(os.sched_getaffinity(0))
    return max(1, fitting_jobs(_MOST_STAGES * processors) // processors)


def jobs_of(requested: str, processors: int) -> int:
    """The number of parallel compilers: the user's MAX_JOBS, else as many as fit into the free memory."""
    if not requested:
        return fitting_jobs(processors)
    if not re.fullmatch(r"[1-9]\d{0,3}", requested):
        raise UsageError(
            f"MAX_JOBS is {requested!r}, which is not a number of processes", hint="MAX_JOBS=2, or unset it"
        )
    return min(int(requested), processors)
