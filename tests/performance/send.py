"""`reprokit send` beside what else brings an image to nodes: time, and bytes on the wire. Takes root and sshd.

    python tests/performance/send.py [--image NAME] [--rounds N]

Four nodes on this machine (`tests/support/cluster.py`): the wire is as fast as memory, and all nodes share the cores.
Ways are started in turn within a round; a ratio is the median of the rounds' ratios. The image is sent to one node, to
all four, and, rebuilt with another last layer, to the four that have the first. Nothing fails where a way is slow.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from reprokit.engine import Engine
from tests.support.cluster import Cluster, cluster
from tests.support.images import built
from tests.support.machine import Machine
from tests.support.waiting import wait_for

LAST = 5_000_000
MB = 1e6
REBUILT = "performance-send:rebuilt"
_REGISTRY = 'version: 0.1\nstorage: {{filesystem: {{rootdirectory: "{0}/data"}}}}\nhttp: {{addr: "0.0.0.0:{1}"}}\n'


def reprokit(image: str, nodes: Sequence[Machine], environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "reprokit", "send", "--replace", image, *(node.login for node in nodes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pipe(image: str, nodes: Sequence[Machine], environment: dict[str, str]) -> None:
    """As people do it: one pipe a node, all at once."""
    line = "docker save {} | zstd -q -3 -T0 | ssh -o BatchMode=yes {} 'zstd -dcq | docker load'"
    together([["sh", "-c", line.format(image, node.login)] for node in nodes], environment)


def registry(image: str, nodes: Sequence[Machine], environment: dict[str, str]) -> None:
    """A push to a registry here, and a pull by every node at once."""
    port = environment["REGISTRY_PORT"]
    here = f"127.0.0.1:{port}/image:1"
    subprocess.run(["docker", "tag", image, here], check=True)
    subprocess.run(["docker", "push", "-q", here], check=True, capture_output=True)
    pulls = []
    for node in nodes:
        there = f"{node.gateway}:{port}/image:1"
        line = f"docker pull -q {there} && docker tag {there} {image}"
        pulls.append(["ssh", "-o", "BatchMode=yes", node.login, line])
    together(pulls, environment)


def together(commands: Sequence[list[str]], environment: dict[str, str]) -> None:
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for command in commands]
    assert [process.wait() for process in processes] == [0] * len(processes)


WAYS: dict[str, Callable[[str, Sequence[Machine], dict[str, str]], None]] = {
    "reprokit send": reprokit,
    "save | zstd | ssh load": pipe,
    "registry push, pull": registry,
}


class Comparison:
    """Seconds and bytes a node of every way, round by round."""

    def __init__(self, nodes: Cluster, environment: dict[str, str]) -> None:
        self.nodes, self.environment = nodes, environment
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.wire: dict[tuple[str, str], list[float]] = {}

    def once(self, what: str, way: str, image: str, nodes: Sequence[Machine]) -> None:
        before = [node.sent_to() for node in nodes]
        start = time.monotonic()
        WAYS[way](image, nodes, self.environment)
        self.seconds.setdefault((what, way), []).append(time.monotonic() - start)
        print(f"{what}, {way}: {self.seconds[what, way][-1]:.1f} s", file=sys.stderr)
        sent = [node.sent_to() - was for node, was in zip(nodes, before, strict=True)]
        self.wire.setdefault((what, way), []).append(statistics.mean(sent))
        for node in nodes:
            assert node.engine().image(image).id == Engine.connect().image(image).id, way

    def print(self) -> None:
        print(f"{'':12}{'':26}{'seconds':>9}{'of send':>9}{'MB a node':>11}")
        for (what, way), seconds in self.seconds.items():
            ours = self.seconds[what, "reprokit send"]
            ratio = statistics.median(s / o for s, o in zip(seconds, ours, strict=True))
            wire = statistics.median(self.wire[what, way]) / MB
            print(f"{what:12}{way:26}{statistics.median(seconds):9.1f}{ratio:9.2f}{wire:11.1f}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--image", default="reprokit/fused-attention:cpu", help="what `make demo` builds")
    arguments.add_argument("--rounds", type=int, default=3)
    chosen = arguments.parse_args()
    engine = Engine.connect()
    with cluster() as nodes, tempfile.TemporaryDirectory(prefix="rk-performance-") as folder:
        port = str(random.randrange(20000, 30000))
        environment = {**os.environ, **nodes.environment, "REPROKIT_HOME": f"{folder}/home", "REGISTRY_PORT": port}
        environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        environment["DOCKER_CONFIG"] = folder
        compared = Comparison(nodes, environment)
        try:
            for number in range(chosen.rounds):
                ways = list(WAYS)[number % 3 :] + list(WAYS)[: number % 3]
                for way in ways:
                    one_way(compared, engine, way, chosen.image, Path(folder) / f"{number}{way[0]}", number)
        finally:
            for name in (REBUILT, f"127.0.0.1:{port}/image:1"):
                if engine.image(name):
                    engine.remove_image(name, force=True)
        compared.print()


def one_way(compared: Comparison, engine: Engine, way: str, image: str, folder: Path, seed: int) -> None:
    """All that is sent, by one way, beginning with nodes and a registry that have nothing."""
    folder.mkdir()
    port = compared.environment["REGISTRY_PORT"]
    everyone = compared.nodes.nodes
    for what, nodes in (("one node", everyone[:1]), ("four nodes", everyone)):
        (folder / "config.yml").write_text(_REGISTRY.format(folder / what.replace(" ", "-"), port))
        serve = ["docker-registry", "serve", str(folder / "config.yml")]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: listening(int(port)))
            compared.once(what, way, image, nodes)
            if what == "four nodes":
                rebuild(engine, image, seed)
                compared.once("rebuilt, 4", way, REBUILT, nodes)
        finally:
            server.terminate()
            server.wait()
            compared.nodes.clear()
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def rebuild(engine: Engine, image: str, seed: int) -> None:
    """The image with a layer more, that cannot be compressed."""
    built(engine, f"FROM {image}\nCOPY last /last\n", {"last": random.Random(seed).randbytes(LAST)}, tag=REBUILT)


if __name__ == "__main__":
    main()
