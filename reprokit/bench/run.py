"""Choose a variant's benchmarks, run them in a container, and turn their output into records."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from reprokit import __version__
from reprokit.bench.hardware import Execute, Hardware, doubts, probe_state, samples_of, watched
from reprokit.bench.inputs import locked_sums, prepare
from reprokit.bench.parse import Measurement, Parsed, different, parse, threads_of
from reprokit.container.execute import Completed
from reprokit.errors import Absent, UsageError, WorkFailed
from reprokit.explain.last import explain_by, keep_success
from reprokit.explain.remedy import Subject
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Input, unit_factor
from reprokit.recipe.spelling import nearest
from reprokit.results.likeness import has_params, without_clocks
from reprokit.results.record import BenchOrigin, Checkout, Record
from reprokit.results.roofline import limits
from reprokit.untrusted.limits import SAMPLES

_SILENT = "reprokit: the benchmark ended with exit code 0 and printed nothing"


def benchmarks(target: Target, names: Sequence[str]) -> Mapping[str, Benchmark]:
    """The variant's benchmarks, or those named in `names`.

    Raises UsageError for a name that it does not have, Absent if it has no benchmark at all.
    """
    every = target.recipe.benchmarks
    mine = target.recipe.benchmarks_of(target.variant_name)
    for name in names:
        if name not in every:
            listed = ", ".join(every) or "none"
            raise UsageError(
                f"{target.recipe.name} has no benchmark {name!r}{nearest(name, every)}",
                str(target.path),
                f"its benchmarks: {listed}",
            )
        if name not in mine:
            raise UsageError(
                f"the benchmark {name!r} is not one of the variant {target.variant_name!r}",
                str(target.path),
                f"it belongs to {', '.join(every[name].variants)}",
            )
    if not mine:
        counts = {name: len(target.recipe.benchmarks_of(name)) for name in target.recipe.variants}
        others = [f"{target.recipe.name}:{name} has {count}" for name, count in counts.items() if count]
        bundled = f"`reprokit bench {target.label} --extension` runs the bundled one"
        raise Absent(f"{target.label} has no benchmarks", str(target.path), "; ".join([*others, bundled]))
    return {name: b for name, b in mine.items() if not names or name in names}


def with_parameters(benchmark: Benchmark, parameters: Mapping[str, Sequence[Any]]) -> Benchmark:
    """The benchmark with these values of its variables instead of those of its matrix."""
    values = {name: list(options) for name, options in parameters.items()}
    return benchmark.model_copy(update={"matrix": {**benchmark.matrix, **values}})


@dataclass(frozen=True)
class Rounds:
    """How often a command runs: `warm_up` times unmeasured, then `repeat` times; each ends after `timeout` seconds.

    None means the benchmark's own value.
    """

    repeat: int | None = None
    warm_up: int = 0
    timeout: int | None = None


@dataclass(frozen=True)
class Bench:
    """A container of `target` to run benchmarks in. `place` puts the recipe's data into the workspace.

    `checkout` reads the state of the workspace, which `origin` has as it was at the start. `disturbed` gets a reason
    for doubt if someone changes it while a benchmark runs. Records appended to a tracked file do not count.
    """

    target: Target
    execute: Execute
    hardware: Hardware
    origin: BenchOrigin
    place: Callable[[Input], None]
    checkout: Callable[[], Checkout] | None = None
    disturbed: list[str] = field(default_factory=list)

    def measure(
        self,
        name: str,
        benchmark: Benchmark,
        workdir: str = "",
        on_output: Callable[[str, str], None] | None = None,
        rounds: Rounds = Rounds(),
        combination: Mapping[str, Any] = {},
    ) -> list[Record]:
        """Run in `workdir` or the variant's; returns the records. Raises WorkFailed if the benchmark fails.

        The values of `combination` are variables of the command and parameters of the records.
        """
        folder = workdir or self.target.variant.workdir
        where = " ".join([self.target.label, name, *assignments(combination)])
        sums = locked_sums(self.target) if benchmark.inputs else {}
        files = prepare(self.execute, benchmark.inputs, folder, self.place, sums)
        data = [file.data for file in benchmark.inputs if file.data and file.data not in sums]
        unlocked = [f"the data {name} has no SHA-256 in the lock, so its content was not verified" for name in data]
        run = partial(self._run, benchmark, folder, on_output, rounds.timeout or benchmark.timeout, where, combination)
        files_before = self._seen()
        began = time.monotonic()
        for _ in range(rounds.warm_up):
            run()
        started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = probe_state(self.execute)
        runs: list[Sequence[Measurement]] = []
        first: dict[str, Any] | None = None
        changed: dict[str, None] = {}
        samples, count, checked = Counter[tuple[int, str]](), 0, 0
        for _ in range(rounds.repeat or benchmark.repeat):
            done, seen = run()
            parsed = _parsed(self.target, benchmark, done, where)
            runs.append(parsed.measurements)
            checked = parsed.checked
            environment, clocks = without_clocks(parsed.environment)
            first = environment if first is None else first
            changed |= dict.fromkeys(parsed.apart)
            changed |= dict.fromkeys(name for name in first | environment if first.get(name) != environment.get(name))
            count += sum(len(case.samples) for case in parsed.measurements)
            SAMPLES.check(count, "samples of all runs", where)
            samples += seen
        seconds = round(time.monotonic() - began, 3)
        after = probe_state(self.execute)
        merged = together(runs)
        if files_before and (files_after := self._seen()) and files_after != files_before:
            self.disturbed[:] = ["the commit or the tracked files of the workspace changed while benchmarks ran"]
        seen_here = [*self.disturbed, *doubts(self.hardware.threads, before, after, samples)]
        reasons = (*self.origin.warnings, *self.hardware.doubts, *unlocked, *different(changed), *seen_here)
        origin = {name: value for name, value in vars(self.origin).items() if name != "warnings"}
        return [
            Record(
                metric=case.metric,
                unit=case.unit,
                samples=case.samples,
                params={**combination, **case.params},
                variables=combination,
                recipe=self.target.recipe.name,
                variant=self.target.variant_name,
                benchmark=name,
                command=benchmark.command,
                cpu=self.hardware.cpu,
                threads=threads_of(environment, self.hardware.threads),
                gpu=self.hardware.gpu,
                driver=self.hardware.driver,
                reprokit=__version__,
                time=started,
                clocks={**self.hardware.clocks, **clocks},
                environment=environment,
                files=files,
                repeats=repeats,
                warm_up=rounds.warm_up,
                seconds=seconds,
                checked=checked,
                machine=self.hardware.machine,
                before=before,
                after=after,
                limited_by=limit,
                warnings=(*missing(repeats), *impossible(case), *contradicted(combination, case.params), *reasons),
                **origin,
            )
            for (case, repeats), limit in zip(merged, limits([case for case, _ in merged]), strict=True)
        ]

    def expected_s(
        self,
        name: str,
        benchmark: Benchmark,
        rounds: Rounds,
        combination: Mapping[str, Any],
        earlier: Sequence[Record],
    ) -> float:
        """The seconds that `measure` last took on this hardware, scaled to as many runs; 0 without a record."""
        expected = (name, self.target.variant_name, self.origin.node, self.hardware.cpu, self.hardware.gpu, combination)
        for record in reversed(earlier):
            facts = (record.benchmark, record.variant, record.node, record.cpu, record.gpu, record.variables)
            if facts == expected and record.seconds and record.repeats:
                runs = rounds.warm_up + (rounds.repeat or benchmark.repeat)
                return record.seconds / (record.warm_up + len(record.repeats)) * runs
        return 0.0

    def _seen(self) -> Checkout | None:
        """The state of the workspace, None if that is unknown."""
        state = self.checkout() if self.checkout and self.origin.dirty is not None else None
        return state if state and state.dirty is not None else None

    def _run(
        self,
        benchmark: Benchmark,
        folder: str,
        on_output: Callable[[str, str], None] | None,
        timeout: int | None,
        where: str,
        combination: Mapping[str, Any],
    ) -> tuple[Completed, Counter[tuple[int, str]]]:
        """Run the command; returns its output, and the samples of the GPUs."""
        argv = ["bash", "-o", "pipefail", "-c", benchmark.command]
        if combination:
            argv = ["env", *assignments(combination), *argv]
        argv = watched(argv) if self.hardware.gpu else argv
        done = self.execute(argv, workdir=folder, on_output=on_output, timeout=timeout)
        if done.exit_code:
            failed = WorkFailed(
                f"the benchmark failed with exit code {done.exit_code}",
                where,
                f"`reprokit shell {self.target.label}` opens its container; the command: {benchmark.command}",
            )
            if done.timed_out:
                failed = WorkFailed(f"the benchmark did not end in {timeout} s", where, "give it longer with --timeout")
            explain_by(failed, f"{done.stdout}\n{done.stderr}", done.facts, Subject(self.target))
            raise failed
        errors, samples = samples_of(done.stderr)
        keep_success(f"{done.stdout}\n{errors}", Subject(self.target))
        return replace(done, stderr=errors), samples


def assignments(combination: Mapping[str, Any]) -> list[str]:
    """`NAME=VALUE` for each variable; true and false as in YAML."""
    return [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in combination.items()]


def _parsed(target: Target, benchmark: Benchmark, done: Completed, where: str) -> Parsed:
    try:
        return parse(benchmark.parse, done.stdout)
    except WorkFailed as error:
        error.where = error.where or where
        silent = [] if f"{done.stdout}{done.stderr}".strip() else [_SILENT]
        explain_by(error, f"{done.stdout}\n{done.stderr}", silent, Subject(target))
        raise


def together(runs: Sequence[Sequence[Measurement]]) -> list[tuple[Measurement, tuple[int, ...]]]:
    """Merge the measurements of several runs by case; each has the number of samples of each run, 0 for none."""
    cases: dict[str, list[tuple[int, Measurement]]] = {}
    for number, run in enumerate(runs):
        for case in run:
            key = json.dumps([case.metric, case.unit, dict(case.params)], sort_keys=True)
            cases.setdefault(key, []).append((number, case))
    SAMPLES.check(len(cases) * len(runs), "cases of all runs")
    merged = []
    for same in cases.values():
        counts = Counter({number: len(case.samples) for number, case in same})
        samples = tuple(sample for _, case in same for sample in case.samples)
        merged.append((replace(same[0][1], samples=samples), tuple(counts[number] for number in range(len(runs)))))
    return merged


def missing(repeats: Sequence[int]) -> list[str]:
    """A reason for doubt if a case is not in every run."""
    printed = len(repeats) - repeats.count(0)
    return [] if printed == len(repeats) else [f"only {printed} of {len(repeats)} runs printed this case"]


def impossible(measured: Measurement) -> list[str]:
    """The reason to doubt a measurement with times of 0 or less; else empty."""
    count = sum(sample <= 0 for sample in measured.samples)
    if not count or unit_factor(measured.unit, "s") is None:
        return []
    are = "is" if count == 1 else "are"
    return [f"{count} of {len(measured.samples)} times {are} 0 or less: the clock is too coarse, or was set back"]


def contradicted(combination: Mapping[str, Any], printed: Mapping[str, Any]) -> list[str]:
    """A reason for doubt for each variable whose printed value differs from the given one."""
    other = [name for name in combination if name in printed and not has_params(printed, {name: combination[name]})]
    return [f"{name} was set to {combination[name]}, and the program printed {printed[name]}" for name in other]
