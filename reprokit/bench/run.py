"""Choose a variant's benchmarks, run them in a container, and turn their output into records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from reprokit import __version__
from reprokit.bench.hardware import Execute, Hardware
from reprokit.bench.inputs import prepare
from reprokit.bench.parse import parse
from reprokit.bench.record import Record
from reprokit.errors import UsageError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Input
from reprokit.recipe.spelling import nearest


def benchmarks(target: Target, names: Sequence[str]) -> Mapping[str, Benchmark]:
    """The variant's benchmarks, or those named in `names`. Raises UsageError where there are none."""
    every = target.recipe.benchmarks
    mine = {name: b for name, b in every.items() if not b.variants or target.variant_name in b.variants}
    for name in names:
        if name not in every:
            known = ", ".join(every) or "none"
            raise UsageError(
                f"{target.recipe.name} has no benchmark {name!r}{nearest(name, every)}",
                str(target.path),
                f"its benchmarks: {known}",
            )
        if name not in mine:
            raise UsageError(
                f"the benchmark {name!r} is not one of the variant {target.variant_name!r}",
                str(target.path),
                f"it belongs to {', '.join(every[name].variants)}",
            )
    if not mine:
        raise UsageError(
            f"{target.label} has no benchmarks",
            str(target.path),
            f"`reprokit bench {target.label} --extension` runs the bundled one",
        )
    return {name: b for name, b in mine.items() if not names or name in names}


@dataclass(frozen=True)
class Bench:
    """A container of `target` to run benchmarks in, created from the image `image_digest`.

    `place` puts the recipe's data into the workspace. `image_state` is that of `Record`.
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
        """Run once in `workdir` or the variant's; returns the records. Raises WorkFailed where the benchmark fails."""
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
                metric=each.metric,
                unit=each.unit,
                samples=each.samples,
                params=dict(each.params),
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
            for each in parsed.measurements
        ]


def without_clocks(environment: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the clock rates, at any depth, from the rest of a program's environment.

    They vary from run to run, and no two records would agree.
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
