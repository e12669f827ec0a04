"""`reprokit send` as a process that tests observe and kill."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.images import Images
from tests.support.machine import Machine
from tests.support.verbs import run_verb

MB = 1_000_000


def incompressible(megabytes: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(megabytes * MB)


class Sender:
    """A user who runs reprokit on this machine. `home` is their $REPROKIT_HOME."""

    def __init__(self, nodes: Cluster, home: Path, **environment: str) -> None:
        self.environment = {**os.environ, **nodes.environment, "REPROKIT_HOME": str(home), **environment}

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "reprokit", "send", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=self.environment, text=True, **pipes)

    def send(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_verb("send", *words, env=self.environment)


def arrived(machine: Machine) -> int:
    """Bytes of blobs in the node's staging directory."""
    total = 0
    for file in machine.incoming.glob("*/*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


def same(images: Images, name: str, machine: Machine) -> bool:
    """Whether the node has this machine's image, and an empty staging directory."""
    here, there = images.engine.image(name), machine.engine().image(name)
    return bool(here and there and here.id == there.id and not arrived(machine))
