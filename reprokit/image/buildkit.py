"""BuildKit, through a Docker CLI that has it: docker-py cannot speak to it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.image.builders import Plan, base_argument
from reprokit.image.dockercli import find_cli
from reprokit.image.events import Built, Cached, Event, Failed, Output, Step
from reprokit.image.instructions import Instructions

_BEGIN = re.compile(r"#(\d+) \[(?:(?P<stage>[^\]]+?) )?\d+/\d+\] (?P<text>.*)")
_OUTPUT = re.compile(r"#(\d+) \d+\.\d+ ?(.*)")
_END = re.compile(r"#(\d+) (CACHED|ERROR: .*|CANCELED)$")
_STOP_TIMEOUT_S = 30


class BuildKit:
    """Builds with `docker build --progress=plain` and reads what it prints."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cli = find_cli()

    def run(self, plan: Plan) -> Generator[Event, None, None]:
        """Build. Raises EngineError where the CLI cannot build at all."""
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
                start_new_session=True,  # Ctrl-C reaches it once, from here
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

    def _command(self, plan: Plan, folder: Path, image_file: Path) -> list[str]:
        command = [
            *self.cli.build,
            "--progress=plain",
            "--network=host",
            f"--iidfile={image_file}",
            f"--tag={plan.name}",
        ]
        for name, value in {**plan.arguments, **base_argument(plan, plan.base_name)}.items():
            command += ["--build-arg", f"{name}={value}"]
        for name in plan.proxies:  # without their values, which the CLI takes from its environment: `ps` shows commands
            command += ["--build-arg", name]
        # The CLI would add those of Docker's configuration, with their passwords.
        for name in ("ftp_proxy", "FTP_PROXY", "all_proxy", "ALL_PROXY"):
            command += ["--build-arg", f"{name}="]
        for name, value in plan.labels.items():
            command += ["--label", f"{name}={value}"]
        return [*command, *(["--no-cache"] if plan.no_cache else []), str(folder)]

    def _environment(self, plan: Plan) -> dict[str, str]:
        return {**os.environ, **plan.proxies, "DOCKER_BUILDKIT": "1", "DOCKER_HOST": self.engine.url}


class ProgressReader:
    """Turns the CLI's plain progress into events. Steps of several stages run at once and their lines are mixed."""

    def __init__(self, instructions: Instructions) -> None:
        self.instructions = instructions
        self.steps: dict[str, Step] = {}
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
            yield Output(match[2].rsplit("\r", 1)[-1])
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


def _stop(process: subprocess.Popen[str]) -> None:
    """Have the CLI cancel its build, and see it gone."""
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
