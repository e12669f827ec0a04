"""Prove `reprokit results compare`: false differences and found slow-downs on real timings, and its time.

    python tests/performance/compare.py

Times two small workloads on this machine, one after the other, by the CPU time of the thread. Two sets of 10 samples
each are taken from successive timings. They take turns, for which the limits must hold; or set B begins where set A
ends, which shows what a machine that is not idle does to two benchmarks after each other. One sample is the median of 5
calls, as in a benchmark that measures more than once.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reprokit.results.stats import SLOWDOWN, effect

TRIALS, SAMPLES, CALLS = 1000, 10, 5
MOST_FALSE, LEAST_FOUND, MOST_SPREAD = 0.05, 0.9, 0.03
RECORDS, SECONDS = 100_000, 8.0


def sort() -> None:
    sorted(NUMBERS)


def text() -> None:
    json.loads(DOCUMENT)


NUMBERS = [n * 7919 % 10_007 for n in range(1500)]
DOCUMENT = json.dumps([{"name": f"x{n}", "values": list(range(n % 50))} for n in range(20)])


def timings(work: Callable[[], None]) -> list[float]:
    """Medians of CALLS calls, enough for all trials."""
    for _ in range(200):
        work()
    found = []
    for _ in range(TRIALS * 2 * SAMPLES):
        calls = []
        for _ in range(CALLS):
            start = time.thread_time()
            work()
            calls.append(time.thread_time() - start)
        found.append(statistics.median(calls))
    return found


def trials(samples: list[float], turns: bool) -> tuple[int, int, int]:
    """False differences of TRIALS; slow-downs found and looked for, where the spread is small enough."""
    false = found = quiet = 0
    for trial in range(TRIALS):
        both = samples[trial * 2 * SAMPLES : (trial + 1) * 2 * SAMPLES]
        a, b = (both[::2], both[1::2]) if turns else (both[:SAMPLES], both[SAMPLES:])
        false += effect(a, b).judgement != "no difference found"
        if max(statistics.stdev(each) / statistics.fmean(each) for each in (a, b)) <= MOST_SPREAD:
            quiet += 1
            found += effect(a, [value * (1 + SLOWDOWN) for value in b]).judgement == "higher"
    return false, found, quiet


def compare_seconds() -> tuple[float, float]:
    """Seconds and CPU seconds of `results compare` of RECORDS records."""
    line = (
        '{"metric": "m%d", "unit": "ms", "samples": [%r, %r], "params": {"n": %d}, "recipe": "x", "variant": "cpu", '
        '"benchmark": "b", "command": "c", "input_hash": "1f", "image_digest": "sha256:2e", "cpu": "EPYC", '
        '"threads": 2, "gpu": "", "driver": "", "reprokit": "0.1.0", "time": "2026-11-21T09:00:00Z", '
        '"commit": "%s", "schema": 2}\n'
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "results").mkdir()
        with (folder / "results" / "x.jsonl").open("w") as file:
            for n in range(RECORDS):
                commit = "ab"[n % 2] * 40
                file.write(line % (n // 2 % 10, 1 + n % 97 / 1e4, 1 + n % 89 / 1e4, n // 20 % 10, commit))
        environment = {**os.environ, "REPROKIT_HOME": f"{name}/home", "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-m", "reprokit", "results", "compare", "aaaa", "bbbb", "--json"]
        start, used = time.perf_counter(), cpu_seconds()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        taken = time.perf_counter() - start, cpu_seconds() - used
        assert len(json.loads(done.stdout)["cases"]) == 100, done.stderr
    return taken


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    failed = False
    print(f"load of {os.cpu_count()} processors: {os.getloadavg()[0]:.1f}")
    print(f"{'workload':9} {'order':12} {'spread':>7} {'false':>12} {'slow-down of 5 % found':>24}")
    for work in (sort, text):
        samples = timings(work)
        spread = statistics.median(
            statistics.stdev(samples[n : n + SAMPLES]) / statistics.fmean(samples[n : n + SAMPLES])
            for n in range(0, len(samples), SAMPLES)
        )
        for turns in (False, True):
            false, found, quiet = trials(samples, turns)
            order = "in turns" if turns else "one by one"
            rate = f"{found} of {quiet} ({found / quiet:.1%})" if quiet else "too noisy"
            print(f"{work.__name__:9} {order:12} {spread:7.1%} {f'{false / TRIALS:.1%}':>12} {rate:>24}", flush=True)
            failed |= turns and (false > MOST_FALSE * TRIALS or (quiet >= 100 and found < LEAST_FOUND * quiet))
    wall, cpu = compare_seconds()
    print(f"compare of {RECORDS} records: {wall:.1f} s, {cpu:.1f} s of CPU")
    return int(failed or wall > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
