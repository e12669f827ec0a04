"""Run one benchmark in a container and turn what it prints into records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from reprokit import __version__
from reprokit.bench.hardware import Execute, Hardware
from reprokit.bench.inputs import prepare
from reprokit.bench.parse import parse
from reprokit.bench.record import Record
from reprokit.errors import WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Input


@dataclass(frozen=True)
class Bench:
    """Where benchmarks run: a container of `target`, made from the image `image_digest`.

    `place` puts the recipe's data into the workspace. `image_state` is what records say of the image.
    """

    target: Target
    execute: Execute
    hardware: Hardware
    input_hash: str
    image_digest: str
    place: Callable[[Input], None]
    image_state: str = ""

    def measure(
        self,
        name: str,
        benchmark: Benchmark,
        workdir: str = "",
        on_output: Callable[[str, str], None] | None = None,
    ) -> list[Record]:
        """The records of one run, in `workdir` or the variant's. Raises WorkFailed where it failed."""
        folder = workdir or self.target.variant.workdir
        where = f"{self.target.label} {name}"
        files = prepare(self.execute, benchmark.inputs, folder, self.place)
        started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        done = self.execute(["bash", "-c", benchmark.command], workdir=folder, on_output=on_output)
        if done.exit_code:
            raise WorkFailed(
                f"the benchmark failed with exit code {done.exit_code}",
                where,
                f"`reprokit shell {self.target.label}` opens its container; the command: {benchmark.command}",
            )
        try:
            parsed = parse(benchmark.parse, done.stdout)
        except WorkFailed as error:
            raise WorkFailed(error.message, where, error.hint) from None
        environment, clocks = without_clocks(parsed.environment)
        threads = environment.get("threads", self.hardware.threads)
        return [
            Record(
                metric=figure.metric,
                unit=figure.unit,
                samples=figure.samples,
                params=dict(figure.params),
                recipe=self.target.recipe.name,
                variant=self.target.variant_name,
                benchmark=name,
                command=benchmark.command,
                input_hash=self.input_hash,
                image_digest=self.image_digest,
                cpu=self.hardware.cpu,
                threads=threads if isinstance(threads, int) else self.hardware.threads,
                gpu=self.hardware.gpu,
                driver=self.hardware.driver,
                reprokit=__version__,
                time=started,
                clocks={**self.hardware.clocks, **clocks},
                environment=environment,
                files=files,
                image_state=self.image_state,
            )
            for figure in parsed.figures
        ]


def without_clocks(environment: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Clocks apart from the rest of what a program says of its surroundings, at any depth.

    They wander from run to run, and would make all records unlike.
    """
    rest: dict[str, Any] = {}
    clocks: dict[str, Any] = {}
    for key, value in environment.items():
        if key == "clocks" and isinstance(value, dict):
            clocks |= value
        elif isinstance(value, dict):
            rest[key], inner = without_clocks(value)
            clocks |= inner
        else:
            rest[key] = value
    return rest, clocks
