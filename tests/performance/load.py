"""`reprokit load` of a bundle beside `docker load` of the same image's plain tar, in one run: `make bench`.

Both go into an engine of the run's own, which is emptied before each, in alternating order, with the disk left to
settle. On a machine that others use, the run and its engine ask the scheduler to go first (as root, where the kernel
groups processes by session): what the others do would be charged to whoever is measured at that moment.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Client, Measure, in_pairs, report

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.other_engine import OtherEngine


class Bench:
    def __init__(self, client: Client, image: str) -> None:
        self.client = client
        self.bundle, self.tar = client.home / "x.rkit", client.home / "x.tar"
        client.seconds(client.reprokit, "export", image, "-o", str(self.bundle))
        client.seconds("docker", "save", image, "-o", str(self.tar))

    def load(self) -> float:
        self.empty()
        return self.client.seconds(self.client.reprokit, "load", str(self.bundle))

    def docker_load(self) -> float:
        self.empty()
        return self.client.seconds("docker", "load", "-q", "-i", str(self.tar))

    def empty(self) -> None:
        subprocess.run("docker images -aq | xargs -r docker rmi -f", shell=True, check=True, stdout=subprocess.DEVNULL)
        for path in (self.bundle, self.tar):  # into the page cache, both
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass
        os.sync()


def go_first(pid: int) -> None:
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-20")


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    bench = Bench(client, options.image)
    engine = OtherEngine(client.home, client.home / "data")
    try:
        for pid in (os.getpid(), engine.process.pid):
            go_first(pid)
        os.environ["DOCKER_HOST"] = engine.address
        bench.docker_load()
        ratios = in_pairs(bench.load, bench.docker_load, options.pairs)
        bench.empty()
    finally:
        engine.stop()
    peak = max(size for command, size in client.peaks.items() if " load " in command)
    yield Measure("load / docker load of the plain tar, time", "x", 1.15, ratios)
    yield Measure("memory of reprokit load", "MB", 300, [peak])


if __name__ == "__main__":
    report(__doc__, measures, {"image": "reprokit/fused-attention:cpu"}, pairs=4)
