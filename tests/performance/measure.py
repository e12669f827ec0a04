"""What reprokit itself costs, measured beside what it is compared with: `make bench`.

Everything is started in pairs, interleaved and in alternating order, in one run on one machine, because a shared
machine's speed changes from minute to minute. A ratio is the median of the pairs' ratios. Nothing fails when a
limit is exceeded: this is a benchmark, and says `over`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EMPTY_APP = """\
import typer

app = typer.Typer()
for name in ("one", "two"):
    app.command(name)(lambda: None)
app()
"""


@dataclass
class Measure:
    """`values` in `unit`, one a pair or run; `x` is a ratio of times."""

    name: str
    unit: str
    limit: float
    values: list[float] = field(default_factory=list)
    skipped: str = ""

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "unit": self.unit, "limit": self.limit}
        if self.skipped:
            return {**data, "skipped": self.skipped}
        median = statistics.median(self.values)
        return {**data, "median": median, "values": self.values, "over": median > self.limit}

    def line(self) -> str:
        data = self.data()
        if self.skipped:
            return f"{self.name:<54} skipped: {self.skipped}"
        spread = f"{min(self.values):.3g}..{max(self.values):.3g}"
        verdict = "over" if data["over"] else "ok"
        return f"{self.name:<54} {data['median']:>6.3g} {self.unit:<3}{spread:>12}{self.limit:>7g}  {verdict}"


@dataclass
class Client:
    """Starts processes in `home` and keeps their highest memory, in MB.

    This process stays small: at exec Linux counts the memory of the process that forked as the child's peak.
    """

    home: Path
    reprokit: str = str(Path(sys.executable).with_name("reprokit"))
    peaks: dict[str, float] = field(default_factory=dict)

    def seconds(self, *command: str, allowed: tuple[int, ...] = (0,), printed: bool = False) -> float:
        """Wall time of a command, or the seconds that it printed. Raises CalledProcessError with its last line."""
        with tempfile.TemporaryFile() as output:
            started = time.monotonic()
            process = subprocess.Popen(command, cwd=self.home, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            taken = time.monotonic() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
        if process.returncode not in allowed:
            reason = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "")
            raise subprocess.CalledProcessError(process.returncode, command, reason)
        if command[0] == self.reprokit or printed:
            name = " ".join(["reprokit", *command[1:]])
            self.peaks[name] = max(self.peaks.get(name, 0), usage.ru_maxrss / 1024)
        return float(lines[-1]) if printed else taken


def in_pairs(measured: Callable[[], float], beside: Callable[[], float], count: int) -> list[float]:
    """Ratios of `measured` to `beside`, each pair in the other order than the last."""
    ratios = []
    for i in range(count):
        if i % 2:
            other = beside()
            ratios.append(measured() / other)
        else:
            one = measured()
            ratios.append(one / beside())
    return ratios


def report(
    description: str,
    measures: Callable[[Client, argparse.Namespace], Iterable[Measure]],
    texts: Mapping[str, str] = {},
    **counts: int,
) -> None:
    """The command line of a benchmark, with `texts` and `counts` as options: a folder, a line for each measure."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count, help=f"how many {name} a ratio is the median of")
    for name, text in texts.items():
        parser.add_argument(f"--{name}", default=text)
    options = parser.parse_args()
    image = getattr(options, "image", "")
    if image and subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode:
        sys.exit(f"no image {image}: `make demo` makes the one that is measured")
    if not options.json:
        print(f"{'median of interleaved pairs or runs':<54} {'median':>10}{'min..max':>12}{'limit':>7}")
    with tempfile.TemporaryDirectory(prefix="reprokit-performance-") as folder:
        for measure in measures(Client(Path(folder)), options):
            print(json.dumps(measure.data()) if options.json else measure.line(), flush=True)


def start_up(client: Client, pairs: int) -> Iterator[Measure]:
    """`--help` and `check` of all recipes beside the `--help` of an empty typer app of two commands."""
    (client.home / "empty.py").write_text(EMPTY_APP)

    def empty() -> float:
        return client.seconds(sys.executable, "empty.py", "--help")

    # `check` exits with 1 where a recipe has a finding.
    for verb, limit, allowed in (("--help", 0.6, (0,)), ("check", 3.0, (0, 1))):

        def measured(verb: str = verb, allowed: tuple[int, ...] = allowed) -> float:
            return client.seconds(client.reprokit, verb, allowed=allowed)

        measured()  # the first start writes byte code
        empty()
        name = f"reprokit {verb} / --help of an empty typer app"
        yield Measure(name, "x", limit, in_pairs(measured, empty, pairs))


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    yield from start_up(client, options.pairs)
    for command, peak in client.peaks.items():
        yield Measure(f"peak memory of {command}", "MB", 150, [peak])


if __name__ == "__main__":
    report(__doc__, measures, pairs=15)
