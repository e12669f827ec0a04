"""BuildKit, through a Docker CLI that has it, which the first on PATH may not: docker-py has no BuildKit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.host.machine import fitting_jobs
from reprokit.image.context import write_context
from reprokit.image.events import BuildPlan, BuildStep, Built, Cached, Event, Failed, Note, OutputLine
from reprokit.image.lines import HALF, lines_of
from reprokit.image.render import Rendered, instructions
from reprokit.image.shell import without_step

_BEGIN = re.compile(r"#(\d+) \[(?:(?P<stage>[^\]]+?) )?\d+/\d+\] (?P<text>.*)")
_OUTPUT = re.compile(r"#(\d+) \d+\.\d+ ?(.*)")
_END = re.compile(r"#(\d+) (CACHED|ERROR: .*|CANCELED)$")
_STOP_TIMEOUT_S = 30
_CLI_TIMEOUT_S = 20


class BuildKit:
    """Builds with `docker build --progress=plain` and reads its output."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.command = find_cli()
        self.states: set[str] = set()  # its steps are no images

    def run(self, plan: BuildPlan) -> Generator[Event, None, None]:
        """Build. Raises EngineError if the CLI cannot build at all."""
        processors = len(os.sched_getaffinity(0))
        if (jobs := fitting_jobs(processors)) < processors:
            yield Note(
                f"the memory has room for {jobs} compilers at once, and BuildKit starts {processors}: "
                "if it kills one, use `--builder classic`, which limits them"
            )
        with TemporaryDirectory(prefix="reprokit-build-") as scratch:
            folder = Path(scratch) / "context"
            folder.mkdir()
            write_context(folder, plan.rendered.dockerfile, plan.rendered.context)
            image_file = Path(scratch) / "image"
            process = subprocess.Popen(
                self._command(plan, folder, image_file),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **plan.proxies, "DOCKER_BUILDKIT": "1", "DOCKER_HOST": self.engine.url},
                start_new_session=True,  # Ctrl-C reaches it once, through this process
            )
            reader = ProgressReader(Instructions(plan.rendered))
            try:
                assert process.stdout is not None
                for line in lines_of(iter(partial(process.stdout.readline, HALF), "")):
                    yield from reader.read(line)
                process.wait()
            finally:
                _stop(process)
            if process.returncode == 0:
                yield Built(image_file.read_text().strip())
            elif reader.failed:
                yield reader.failed
            else:
                raise EngineError(f"{self.command[0]}: {reader.last}", plan.name)

    def _command(self, plan: BuildPlan, folder: Path, image_file: Path) -> list[str]:
        command = [
            *self.command,
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
                message = without_step(match[2].removeprefix("ERROR: "))
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
        self.texts = instructions(rendered.dockerfile)
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
    both_ways = zip(one, other, strict=False), zip(reversed(one), reversed(other), strict=False)
    return sum(1 for pairs in both_ways for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


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


def find_cli() -> tuple[str, ...]:
    """The command of a CLI that builds with BuildKit. Raises EngineError with all that were tried if there is none."""
    tried = _candidates()
    found = next(filter(None, map(_build_command, tried)), None)
    if found is None:
        raise EngineError(
            "no Docker CLI on PATH can use BuildKit" + (f" (tried {', '.join(tried)})" if tried else ""),
            hint="install the buildx plugin (docker-buildx), or build with --builder classic",
        )
    return found


def _candidates() -> list[str]:
    found: dict[Path, str] = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "docker"
        if folder and os.access(path, os.X_OK) and path.is_file():  # skips folders of other users
            found.setdefault(path.resolve(), str(path))
    return list(found.values())


def _build_command(path: str) -> tuple[str, ...] | None:
    if _run(path, "buildx", "version") is not None:
        # Other builders than the engine's own have their own network and image store.
        return path, "buildx", "build", "--builder=default", "--load"
    match = re.search(r"version (\d+)\.(\d+)", _run(path, "--version") or "")
    # From 18.09 to 22 the CLI itself has BuildKit; from 23 on it needs buildx.
    if match and (18, 9) <= (int(match[1]), int(match[2])) < (23, 0):
        return path, "build"
    return None


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CLI_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
