"""The engine's classic builder, spoken to through docker-py."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.image.builders import Plan, base_argument
from reprokit.image.context import context_tar
from reprokit.image.events import Built, Cached, Event, Failed, Output, Step
from reprokit.image.quoting import env, word

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_STATE = re.compile(r" ---> ([0-9a-f]{12,64})$")
_RUNNING = re.compile(r" ---> Running in ([0-9a-f]{12,64})$")
_KILL_TIMEOUT_S = 30


class Classic:
    """Builds with the engine's own builder, which needs no client beside reprokit."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.running = ""

    def run(self, plan: Plan) -> Generator[Event, None, None]:
        """Build. Raises EngineError where the engine goes away."""
        context = context_tar({"Dockerfile": (plan.rendered.dockerfile + label_line(plan.labels)).encode()})
        stream = self.engine.build(
            context,
            tag=plan.name,
            buildargs={**plan.arguments, **plan.proxies, **base_argument(plan, plan.base_id)},
            network_mode=plan.network,
            nocache=plan.no_cache,
            rm=True,
            forcerm=True,
        )
        try:
            yield from self._events(stream, plan)
        finally:
            stream.close()
            context.close()
            self._tidy()

    def _events(self, stream: Iterator[dict], plan: Plan) -> Iterator[Event]:
        step, last_good, image_id = Step(0, 0, plan.rendered.spans[0][2], ""), "", ""
        for line in stream_lines(stream):
            if isinstance(line, dict):
                if "error" in line:
                    yield Failed(step.block, step.text, line["error"].strip(), last_good)
                    return
                image_id = line["aux"]["ID"]
            elif match := _STEP.fullmatch(line):
                number = int(match[1])
                # The last one is that of the labels, which no line of the rendered Dockerfile stands for.
                if number <= len(plan.rendered.steps):
                    block = plan.rendered.block_of_step(number)
                    step = Step(number, len(plan.rendered.steps), block, " ".join(match[3].split()))
                    yield step
            elif line == " ---> Using cache":
                yield Cached()
            elif match := _RUNNING.fullmatch(line):
                self.running = match[1]
            elif match := _STATE.fullmatch(line):
                last_good, self.running = match[1], ""
            elif not line.startswith(("Removing intermediate container ", "Successfully ")):
                yield Output(line)
        if not image_id:
            raise EngineError("the engine ended the build without a word", plan.name, "its own log may say why")
        yield Built(image_id)

    def _tidy(self) -> None:
        """See the step's container gone: the engine kills it when its client leaves, but not at once."""
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while self.running and self.engine.container(self.running) is not None:
            if time.monotonic() > deadline:
                self.engine.remove(self.running, force=True)
                return
            time.sleep(0.1)


def label_line(labels: Mapping[str, str]) -> str:
    """All labels as one instruction: the engine would make a step of each that it is given beside the Dockerfile."""
    pairs = (f"{word(name)}={env(value)}" for name, value in labels.items())
    return f"LABEL {' '.join(pairs)}\n"


def stream_lines(stream: Iterator[dict]) -> Iterator[str | dict]:
    """The stream's text cut into lines, with its `error` and result as they are; a chunk may end anywhere."""
    rest = ""
    for event in stream:
        if "stream" in event:
            *lines, rest = (rest + event["stream"]).split("\n")
            for line in lines:
                line = line.rstrip("\r").rsplit("\r", 1)[-1]  # what stands when a progress bar is done
                if line.strip():
                    yield line
        elif "error" in event or "ID" in event.get("aux", {}):
            if rest.strip():
                yield rest
            rest = ""
            yield event
    if rest.strip():
        yield rest
