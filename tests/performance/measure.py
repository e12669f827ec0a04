"""What reprokit itself costs, measured beside what it is compared with: `make bench`.

Everything is started in pairs, interleaved and in alternating order, in one run on one machine, because a shared
machine's speed changes from minute to minute. A ratio is the median of the pairs' ratios. Nothing fails when a
limit is exceeded: this is a benchmark, and says `over`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
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
NAME = "reprokit-performance"
PAPER = "paper: {title: A small build, venue: none, year: 2026, licence: none}"
# The base has all that apt is asked for, and no package sources: a build that is compared uses no network.
BASE_RECIPE = f"""\
name: {NAME}-base
{PAPER}
variants:
  cpu: {{base: "debian:12", pins: {{python: "3.11"}}, blocks: [python]}}
"""
BASE_DOCKERFILE = f"""\
FROM reprokit/{NAME}-base:cpu
RUN rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
"""
# What the demo installs. A build costs half a second more than the Docker CLI's, however long it takes.
RECIPE = f"""\
name: {NAME}
{PAPER}
variants:
  cpu:
    base: {NAME}-base:latest
    pins: {{python: "3.11", distro: "debian:12", torch: "2.13.0+cpu"}}
    blocks: [python, wheels, torch]
    wheels: ["numpy==1.26.4"]
    wheel_indexes: [https://download.pytorch.org/whl/cpu]
"""
# Locked, its base bootstrapped: all of it is in the store before anything is timed.
LOCKED = f"{NAME}-locked"
LOCKED_RECIPE = f"""\
name: {LOCKED}
{PAPER}
variants:
  cpu:
    base: debian:12
    pins: {{python: "3.11", distro: "debian:12"}}
    blocks: [python, wheels]
    wheels: ["numpy==1.26.4"]
"""
OURS, CLIS, BASE = f"reprokit/{NAME}:cpu", f"{NAME}-cli", f"{NAME}-base"


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
    image: bool = False,
    **counts: int,
) -> None:
    """The command line of a benchmark: a folder for it, and a line for each measure. `counts` are options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count, help=f"how many {name} a ratio is the median of")
    if image:
        parser.add_argument("--image", default="reprokit/fused-attention:cpu")
    options = parser.parse_args()
    if image and subprocess.run(["docker", "image", "inspect", options.image], capture_output=True).returncode:
        sys.exit(f"no image {options.image}: `make demo` makes the one that is measured")
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


def unchanged_build(client: Client, runs: int) -> Measure:
    """A build of the recipe fused-attention that finds everything built."""
    command = (client.reprokit, "build", "fused-attention:cpu")
    client.seconds(*command)
    values = [client.seconds(*command) for _ in range(runs)]
    return Measure("reprokit build fused-attention:cpu, unchanged", "s", 1.5, values)


def build_beside_cli(client: Client, pairs: int) -> Measure:
    """A build without cache beside `docker build` of the same Dockerfile, both fed by a gateway on this machine."""
    command = (client.reprokit, "build", NAME, "--no-cache")
    context = client.home / "context"
    context.mkdir()
    docker = ("env", "DOCKER_BUILDKIT=0", "docker", "build", "--no-cache", "--network", "host")
    try:
        prepare_base(client, context)
        client.seconds(*command)  # fetches what the builds then take from the store
        with gateway(client) as given:
            (context / "Dockerfile").write_text(given["dockerfile"])
            pairs_given = [f"--build-arg={name}={value}" for name, value in given["arguments"].items()]

            def ours() -> float:
                removed(OURS)
                return client.seconds(*command)

            def cli() -> float:
                removed(CLIS)
                return client.seconds(*docker, *pairs_given, "--tag", CLIS, str(context))

            values = in_pairs(ours, cli, pairs)
    finally:
        removed(OURS, CLIS, BASE, f"reprokit/{BASE}:cpu")
    return Measure("reprokit build --no-cache / docker build --no-cache", "x", 1.05, values)


def offline_build(client: Client, pairs: int) -> Measure:
    """A locked build without cache, offline and not, both from a warm store."""
    add_recipe(client, LOCKED, LOCKED_RECIPE)
    command = (client.reprokit, "build", LOCKED, "--no-cache")
    try:
        client.seconds(client.reprokit, "lock", LOCKED)
        client.seconds(client.reprokit, "fetch", LOCKED)
        client.seconds(*command)
        values = in_pairs(lambda: client.seconds(*command, "--offline"), lambda: client.seconds(*command), pairs)
    finally:
        removed(f"reprokit/{LOCKED}:cpu")
    return Measure("a locked build, --offline / online", "x", 1.1, values)


def add_recipe(client: Client, name: str, text: str) -> None:
    """Write a recipe. With the first one, the folder no longer takes the recipes that come with reprokit."""
    (client.home / "recipes").mkdir(exist_ok=True)
    (client.home / "recipes" / f"{name}.yaml").write_text(text)


def prepare_base(client: Client, context: Path) -> None:
    """Make the local base image of the recipe that is compared."""
    for name, text in ((BASE, BASE_RECIPE), (NAME, RECIPE)):
        add_recipe(client, name, text)
    client.seconds(client.reprokit, "build", BASE)
    (context / "Dockerfile").write_text(BASE_DOCKERFILE)
    client.seconds("docker", "build", "--tag", BASE, str(context))


def removed(*images: str) -> None:
    subprocess.run(["docker", "image", "rm", "--force", *images], capture_output=True, check=False)


@contextlib.contextmanager
def gateway(client: Client) -> Iterator[dict[str, Any]]:
    """The Dockerfile of the small recipe and what the Docker CLI needs to build it, from a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    with subprocess.Popen(command, cwd=client.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


def serve() -> None:
    """Be that process, until standard input ends."""
    from reprokit.engine import Engine
    from reprokit.image.base.resolve import resolve_base
    from reprokit.image.inputs import resolve_inputs
    from reprokit.image.render import render
    from reprokit.recipe.find import target as find_target
    from reprokit.supply.gateway import Gateway
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    def quiet(line: str) -> None:
        pass

    target, store = find_target(NAME), Store()
    rendered = render(target)
    base = resolve_base(Engine.connect(), target.variant.base, quiet)
    mirrors = Mirrors(store, indexes=target.variant.wheel_indexes)
    inputs = resolve_inputs(target, rendered, base, mirrors, quiet)
    with Gateway(store, inputs.served) as proxy:
        arguments = {**inputs.arguments, **proxy.build_arguments(), "BASE": base.image_id}
        print(json.dumps({"dockerfile": rendered.dockerfile, "arguments": arguments}), flush=True)
        sys.stdin.read()


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    yield from start_up(client, options.pairs)
    for name, unit, limit, measure in (
        ("an unchanged build", "s", 1.5, lambda: unchanged_build(client, 5)),
        ("a locked build offline", "x", 1.1, lambda: offline_build(client, options.builds)),
        ("a build beside the Docker CLI's", "x", 1.05, lambda: build_beside_cli(client, options.builds)),
    ):
        if shutil.which("docker") is None and "CLI" in name:
            yield Measure(name, unit, limit, skipped="there is no Docker CLI")
            continue
        try:
            yield measure()
        except subprocess.CalledProcessError as error:
            yield Measure(name, unit, limit, skipped=error.output)
    for command, peak in client.peaks.items():
        yield Measure(f"peak memory of {command}", "MB", 150, [peak])


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        report(__doc__, measures, pairs=15, builds=3)
