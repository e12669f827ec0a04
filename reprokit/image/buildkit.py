"""BuildKit, through a Docker CLI that has it: docker-py has no BuildKit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.image.dockercli import find_cli
from reprokit.image.events import BuildStep, Built, Cached, Event, Failed, OutputLine
from reprokit.image.plan import BuildPlan
from reprokit.image.render import Rendered

_BEGIN = re.compile(r"#(\d+) \[(?:(?P<stage>[^\]]+?) )?\d+/\d+\] (?P<text>.*)")
_OUTPUT = re.compile(r"#(\d+) \d+\.\d+ ?(.*)")
_END = re.compile(r"#(\d+) (CACHED|ERROR: .*|CANCELED)$")
_STOP_TIMEOUT_S = 30


class BuildKit:
    """Builds with `docker build --progress=plain` and reads its output."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cli = find_cli()

    def run(self, plan: BuildPlan) -> Generator[Event, None, None]:
        """Build. Raises EngineError if the CLI cannot build at all."""
        with TemporaryDirectory(prefix="reprokit-build-") as scratch:
            folder = Path(scratch) / "context"
            folder.mkdir()
            (folder / "Dockerfile").write_text(plan.rendered.dockerfile)
            image_file = Path(scratch) / "image"
            process = subprocess.Popen(
                self._command(plan, folder, image_file),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=self._environment(plan),
                start_new_session=True,  # Ctrl-C reaches it once, through this process
            )
            reader = ProgressReader(Instructions(plan.rendered))
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    yield from reader.read(line.rstrip("\n"))
                process.wait()
            finally:
                _stop(process)
            if process.returncode == 0:
                yield Built(image_file.read_text().strip())
            elif reader.failed:
                yield reader.failed
            else:
                raise EngineError(f"{self.cli.path}: {reader.last}", plan.name)

    def _command(self, plan: BuildPlan, folder: Path, image_file: Path) -> list[str]:
        command = [
            *self.cli.build,
            "--progress=plain",
            "--network=host",
            f"--iidfile={image_file}",
            f"--tag={plan.name}",
        ]
        for name, value in {**plan.arguments, **plan.base_argument(plan.base_name)}.items():
            command += ["--build-arg", f"{name}={value}"]
        for name in plan.proxies:  # the CLI takes their values from its environment, as `ps` shows commands
            command += ["--build-arg", name]
        # Otherwise the CLI adds the proxies of Docker's configuration, with their passwords.
        for name in ("ftp_proxy", "FTP_PROXY", "all_proxy", "ALL_PROXY"):
            command += ["--build-arg", f"{name}="]
        for name, value in plan.labels.items():
            command += ["--label", f"{name}={value}"]
        return [*command, *(["--no-cache"] if plan.no_cache else []), str(folder)]

    def _environment(self, plan: BuildPlan) -> dict[str, str]:
        return {**os.environ, **plan.proxies, "DOCKER_BUILDKIT": "1", "DOCKER_HOST": self.engine.url}


class ProgressReader:
    """Turns the CLI's plain progress into events. Stages run at the same time, so their lines are mixed."""

    def __init__(self, instructions: Instructions) -> None:
        self.instructions = instructions
        self.steps: dict[str, BuildStep] = {}
        self.current = ""
        self.failed: Failed | None = None
        self.last = ""

    def read(self, line: str) -> Iterator[Event]:
        if line.strip():
            self.last = line
        if match := _BEGIN.fullmatch(line):
            self.steps[match[1]] = self.instructions.step(match["stage"] or "", match["text"])
            yield from self._turn_to(match[1])
        elif (match := _OUTPUT.fullmatch(line)) and match[1] in self.steps:
            yield from self._turn_to(match[1])
            yield OutputLine(match[2].rsplit("\r", 1)[-1])
        elif match := _END.fullmatch(line):
            step = self.steps.get(match[1])
            if match[2] == "CACHED" and step:
                yield from self._turn_to(match[1])
                yield Cached()
            elif match[2].startswith("ERROR: ") and not self.failed:
                message = match[2].removeprefix("ERROR: ")
                self.failed = Failed(step.block, step.text, message, "") if step else Failed("base", "FROM", message)
                if step:
                    yield from self._turn_to(match[1])

    def _turn_to(self, vertex: str) -> Iterator[Event]:
        if vertex != self.current:
            self.current = vertex
            yield self.steps[vertex]


class Instructions:
    """The Dockerfile's instructions, found in BuildKit's output, which numbers steps by stage and skips some."""

    def __init__(self, rendered: Rendered) -> None:
        self.rendered = rendered
        lines = rendered.dockerfile.splitlines()
        ends = [*(start - 1 for start in rendered.steps[1:]), len(lines)]
        self.texts = [_one_line(lines[start - 1 : end]) for start, end in zip(rendered.steps, ends, strict=True)]
        self.stages: list[str] = []
        stage = ""
        for text in self.texts:
            if match := re.match(r"FROM \S+(?: AS (\S+))?$", text, re.IGNORECASE):
                number = sum(t.upper().startswith("FROM ") for t in self.texts[: len(self.stages)])
                stage = match[1] or f"stage-{number}"
            self.stages.append(stage)

    def step(self, stage: str, text: str) -> BuildStep:
        """The step that BuildKit prints as `text` in `stage` (empty if the Dockerfile has only one)."""
        text = " ".join(text.split())
        inside = [i for i in range(len(self.texts)) if not stage or self.stages[i] == stage]
        # BuildKit prints variables expanded, so a text is found by what comes before and after them.
        index = max(inside or range(len(self.texts)), key=lambda i: _likeness(self.texts[i], text))
        return BuildStep(index + 1, len(self.texts), self.rendered.block_of_step(index + 1), text)


def _likeness(one: str, other: str) -> int:
    """How many characters two texts share at their beginning and end; most if they are equal."""
    if one == other:
        return 2 * len(one) + 1
    return _shared(one, other) + _shared(one[::-1], other[::-1])


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _one_line(lines: list[str]) -> str:
    kept = [line.rstrip().removesuffix("\\") for line in lines if not line.lstrip().startswith("#")]
    return " ".join(" ".join(kept).split())


def _stop(process: subprocess.Popen[str]) -> None:
    """Make the CLI cancel its build, and wait until it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()
