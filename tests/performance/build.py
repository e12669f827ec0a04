"""Builds and runs of locked recipes beside the Docker CLI's, as ratios of times.

Each build is without a cache, from a warm store; `docker build` gets the same Dockerfile, and its downloads from the
same gateway. BuildKit is measured where the CLI has it. `--recipes taco:cpu,bytetransformer:cuda-debian` takes others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Client, Measure, in_pairs, report

RECIPES = "fused-attention:cpu"
THEIRS = "reprokit-performance-docker"
BASE = "reprokit-performance-base"  # BuildKit takes no image ID


def removed(*images: str) -> None:
    subprocess.run(["docker", "image", "rm", "--force", *images], capture_output=True, check=False)


@contextlib.contextmanager
def gateway(client: Client, label: str) -> Iterator[dict[str, Any]]:
    """The build's context, and what the Docker CLI needs to build it, from a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", label]
    with subprocess.Popen(command, cwd=client.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


def serve(label: str) -> None:
    """Be that process, until standard input ends."""
    from tempfile import TemporaryDirectory

    from reprokit.engine import Engine
    from reprokit.image.lock.read import fresh_lock
    from reprokit.image.lock.supplies import Supplier
    from reprokit.image.render import render
    from reprokit.recipe.find import target as find_target
    from reprokit.supply.gateway import Gateway, locked
    from reprokit.supply.mirrors import Mirrors
    from reprokit.supply.store import Store

    target, store = find_target(label), Store()
    rendered = render(target)
    lock = fresh_lock(target, rendered)
    assert lock, f"{label} has no lock"
    supplier = Supplier(Mirrors(store), lambda progress: None, offline=True)
    inputs = supplier.inputs(Engine.connect(), label, rendered, lock, False)
    with (
        Gateway(supplier.mirrors, inputs.served, locked(label), inputs.base.archives) as proxy,
        TemporaryDirectory() as folder,
    ):
        rendered.write(Path(folder))
        arguments = {**inputs.arguments, **proxy.build_arguments(), "BASE": inputs.base.image_id}
        print(json.dumps({"context": folder, "arguments": arguments}), flush=True)
        sys.stdin.read()


def builds(client: Client, label: str, pairs: int) -> Iterator[Measure]:
    """A build without cache beside `docker build` by each builder; and one that finds everything built."""
    ours = (client.reprokit, "build", label)
    client.seconds(*ours)  # fetches what the builds then take from the store
    with gateway(client, label) as given:
        subprocess.run(["docker", "tag", given["arguments"]["BASE"], BASE], check=True)
        arguments = {**given["arguments"], "BASE": BASE}
        words = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        for builder, number in (("classic", "0"), ("BuildKit", "1")):
            docker = ("env", f"DOCKER_BUILDKIT={number}", "docker", "build", "--no-cache", "--network", "host")

            def theirs(docker: tuple[str, ...] = docker) -> float:
                removed(THEIRS)
                return client.seconds(*docker, *words, "--tag", THEIRS, given["context"])

            name = f"build --no-cache {label} / docker build, {builder}"
            try:
                yield Measure(name, "x", 1.1, in_pairs(lambda: client.seconds(*ours, "--no-cache"), theirs, pairs))
            except subprocess.CalledProcessError as error:
                yield Measure(name, "x", 1.1, skipped=error.output[:60])
    removed(THEIRS, BASE)
    yield Measure(f"build {label}, unchanged", "s", 1.5, [client.seconds(*ours) for _ in range(5)])


def runs(client: Client, label: str, pairs: int) -> Measure:
    """A command in a new container."""
    container, image = "reprokit-performance", f"reprokit/{label}"
    confined = ("--security-opt", "no-new-privileges", "--user", "1000:1000", "--init")
    docker = ("docker", "run", "--name", container, *confined)

    def gone() -> None:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)

    def ours() -> float:
        gone()
        return client.seconds(client.reprokit, "run", "--name", container, label, "--", "true")

    def theirs() -> float:
        gone()
        return client.seconds(*docker, "--volume", f"{client.home}:/workspace", image, "true")

    name = f"run {label} true / docker run"
    try:
        return Measure(name, "x", 1.25, in_pairs(ours, theirs, pairs))
    except subprocess.CalledProcessError as error:  # a variant that needs a GPU which this machine lacks
        return Measure(name, "x", 1.25, skipped=error.output[:60])
    finally:
        gone()


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    labels = options.recipes.split(",")
    for label in labels:
        yield from builds(client, label, options.builds)
    yield runs(client, labels[0], options.runs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        report(__doc__, measures, {"recipes": RECIPES}, builds=3, runs=15)
