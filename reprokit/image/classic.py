"""The engine's classic builder, through docker-py."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping

from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError
from reprokit.helper.sidecar import joined
from reprokit.host.machine import fitting_jobs
from reprokit.image import made, trust
from reprokit.image.entries import full_id
from reprokit.image.events import BuildPlan, BuildStep, Built, Cached, Event, Failed, Note, OutputLine
from reprokit.image.labels import DOCKERFILE, FAILED, INPUTS, failed_name
from reprokit.image.lines import Lines
from reprokit.image.quoting import env, word
from reprokit.image.shell import without_step
from reprokit.recipe.find import Target
from reprokit.tarfiles import tar_of

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_STATE = re.compile(r" ---> ([0-9a-f]{12,64})$")
_RUNNING = re.compile(r" ---> Running in [0-9a-f]{12,64}$")
_KILL_TIMEOUT_S = 30
_MOST_STATES = 10_000  # a step's output can name more


class Classic:
    """Builds with the engine's own builder, which needs no other client."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.states: set[str] = set()

    def run(self, plan: BuildPlan) -> Generator[Event, None, None]:
        """Build, with no more processors than the free memory has room for compilers.

        Raises EngineError if the engine goes away, UsageError if the variable MAX_JOBS is no number.
        """
        processors = sorted(os.sched_getaffinity(0))
        jobs = jobs_of(os.environ.get("MAX_JOBS", ""), len(processors))
        limits = {}
        # ninja, make and nproc count the processors that a step may use, which changes neither Dockerfile nor cache.
        if jobs < len(processors) and self.engine.info().get("CPUSet"):
            limits = {"cpusetcpus": ",".join(map(str, processors[:jobs]))}
            yield Note(
                f"building with {jobs} of {len(processors)} processors, as many compilers as fit into the memory"
            )
        context = build_context(plan.rendered.dockerfile + label_line(plan.labels), plan.rendered.context)
        stream = self.engine.build(
            context,
            tag=plan.name,
            buildargs={**plan.arguments, **plan.proxies, **plan.base_argument(plan.base_id)},
            network_mode=plan.network,
            nocache=plan.no_cache,
            container_limits=limits,
            rm=True,
            forcerm=True,
        )
        try:
            yield from self._events(stream, plan)
        finally:
            stream.close()
            self._tidy(plan.network)

    def _events(self, stream: Iterator[dict], plan: BuildPlan) -> Iterator[Event]:
        step, last_good, image_id = BuildStep(0, 0, plan.rendered.spans[0][2], ""), "", ""
        for line in stream_lines(stream):
            if isinstance(line, dict):
                if "error" in line:
                    yield Failed(step.block, step.text, without_step(line["error"].strip()), last_good)
                    return
                image_id = line["aux"]["ID"]
            elif match := _STEP.fullmatch(line):
                number = int(match[1])
                # The last step sets the labels; the rendered Dockerfile has no line for it.
                if number <= len(plan.rendered.steps):
                    block = plan.rendered.block_of_step(number)
                    step = BuildStep(number, len(plan.rendered.steps), block, " ".join(match[3].split()))
                    yield step
            elif line == " ---> Using cache":
                yield Cached()
            elif match := _STATE.fullmatch(line):
                last_good = match[1]
                if len(self.states) < _MOST_STATES:
                    self.states.add(match[1])
            elif not (_RUNNING.fullmatch(line) or line.startswith(("Removing intermediate ", "Successfully "))):
                yield OutputLine(line)
        if not image_id:
            raise EngineError("the engine ended the build without a result", plan.name, "see the engine's own log")
        yield Built(image_id)

    def _tidy(self, network: str) -> None:
        """Wait until the step's container is gone: the engine kills it some time after its client has left.

        The engine says which one it is: a step's own output can imitate the builder's.
        """
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while running := joined(self.engine, network):
            if time.monotonic() > deadline:
                for container in running:
                    self.engine.remove(container, force=True)
                return
            time.sleep(0.1)


def jobs_of(requested: str, processors: int) -> int:
    """Compilers at once: as the user's MAX_JOBS says, else as many as fit into the free memory."""
    if not requested:
        return fitting_jobs(processors)
    if not re.fullmatch(r"[1-9]\d{0,3}", requested):
        raise UsageError(
            f"MAX_JOBS is {requested!r}, which is not a number of processes", hint="MAX_JOBS=2, or unset it"
        )
    return min(int(requested), processors)


def label_line(labels: Mapping[str, str]) -> str:
    """All labels as one instruction: the engine would make a step of each label that it gets as an argument."""
    pairs = (f"{word(name)}={env(value)}" for name, value in labels.items())
    return f"LABEL {' '.join(pairs)}\n"


def stream_lines(stream: Iterator[dict]) -> Iterator[str | dict]:
    """The stream's text as lines, and its error and result as they are. A chunk may end inside a line."""
    text = Lines()
    for event in stream:
        if "stream" in event:
            yield from _shown(text.add(event["stream"]))
        elif "error" in event or "ID" in event.get("aux", {}):
            yield from _shown(text.end())
            yield event
    yield from _shown(text.end())


def _shown(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        line = line.rstrip("\r").rsplit("\r", 1)[-1]  # the last state of a progress bar
        if line.strip():
            yield line


def build_context(dockerfile: str, files: Iterable[tuple[str, bytes]] = ()) -> io.BytesIO:
    """A tar of the Dockerfile and the files that it copies."""
    return io.BytesIO(tar_of({"Dockerfile": dockerfile.encode(), **dict(files)}))


def keep_last_good(engine: Engine, target: Target, failed: Failed, base_id: str, labels: Mapping[str, str]) -> str:
    """Tag the state before the failed step as `reprokit/NAME:VARIANT--failed`; return a sentence about it.

    A step's output can name another image, so the state must be the base or a recorded step.
    """
    if not failed.last_good:
        return "no step succeeded, so there is no state to keep"
    name = failed_name(target.label)
    state = full_id((engine.image(failed.last_good) or {}).get("Id", ""))
    if state != full_id(base_id) and state not in made.entries(engine):
        return f"{failed.last_good}, the state before the failed step, is not kept: it is not a step of this build"
    marked = {key: value for key, value in labels.items() if key not in (INPUTS, DOCKERFILE)} | {FAILED: failed.block}
    context = build_context(f"FROM {state}\n")
    for _ in engine.build(context, tag=name, labels=marked, rm=True, forcerm=True):
        pass
    if image := engine.image(name):
        trust.record(engine, image["Id"], "built here", "build --keep-failed")
        made.record(engine, image["Id"], "failed", target.label)
    return f"the state before the failed step is kept as {name}: `reprokit shell {target.label} --failed`"
