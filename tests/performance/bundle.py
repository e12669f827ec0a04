"""The cost of bundles beside `docker save | zstd -3 -T0`, on one machine in one run: `make bench`.

Interleaved pairs, in alternating order; the disk is left to settle before each, so that none pays for what another one
wrote. The image is the demo's, 1.5 GB of real packages, unless another is named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Client, Measure, in_pairs, report

from reprokit.engine import Engine

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.images import built

MB = 1_000_000
NAME = "reprokit-performance-bundle"
ADDED = 30 * MB  # half of it can be compressed


class Bench:
    def __init__(self, client: Client, image: str) -> None:
        self.client, self.image = client, image
        self.out = client.home / "x.rkit"

    def export(self, *arguments: str, out: Path | None = None) -> int:
        """Bytes of a bundle."""
        path = out or self.out
        self.client.seconds(self.client.reprokit, "export", *arguments, "-o", str(path))
        return path.stat().st_size

    def timed_export(self) -> float:
        self.out.unlink(missing_ok=True)
        os.sync()
        return self.client.seconds(self.client.reprokit, "export", self.image, "-o", str(self.out))

    def timed_save(self) -> float:
        os.sync()
        command = 'docker save "$0" | zstd -q -3 -T0 -f -o "$1"'
        return self.client.seconds("sh", "-c", command, self.image, str(self.client.home / "x.zst"))

    def time(self, pairs: int) -> Measure:
        self.timed_save()  # what is read comes into the page cache
        values = in_pairs(self.timed_export, self.timed_save, pairs)
        return Measure("export / docker save | zstd -3 -T0, time", "x", 1.25, values)

    def size(self) -> Measure:
        piped = ["sh", "-c", 'docker save "$0" | zstd -q -3 -T0 -c | wc -c', self.image]
        plain = int(subprocess.run(piped, capture_output=True, text=True, check=True).stdout)
        return Measure("bundle / docker save | zstd -3, size", "x", 1.0, [self.export(self.image) / plain])

    def two(self, engine: Engine) -> Iterator[Measure]:
        with added(engine, self.image, "a", 1) as one, added(engine, self.image, "b", 2) as other:
            alone = [self.export(name, out=self.client.home / f"{i}.rkit") for i, name in enumerate((one, other))]
            top = layer_size(self.client.home / "1.rkit", -1)
            both = self.export(one, other)
            name = "two images of one base / the larger and what differs"
            yield Measure(name, "x", 1.02, [both / (max(alone) + top)])
            old = self.client.home / "old.rkit"
            self.export(self.image, out=old)
            started = time.monotonic()
            update = self.export(other, "--since", str(old))
            taken = time.monotonic() - started
            yield Measure("update of one layer, beyond that layer's blob", "MB", 1.0, [(update - top) / MB])
            yield Measure("update / docker save | zstd -3 -T0, time", "x", 1.25, [taken / self.timed_save()])


@contextmanager
def added(engine: Engine, base: str, tag: str, seed: int) -> Iterator[str]:
    """The image with one layer more."""
    content = b"".join(bytes(512) + os.urandom(512) for _ in range(ADDED // 1024))
    reference = f"{NAME}:{tag}"
    built(engine, f"FROM {base}\nCOPY added-{seed} /\n", {f"added-{seed}": content}, tag=reference)
    try:
        yield reference
    finally:
        engine.remove_image(reference, force=True)


def layer_size(bundle: Path, number: int) -> int:
    """Bytes of a layer's blob."""
    with tarfile.open(bundle) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        return tar.getmember(manifest[0]["Layers"][number]).size


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    bench = Bench(client, options.image)
    yield bench.size()
    yield from bench.two(Engine.connect())
    yield bench.time(options.pairs)
    yield Measure("memory of reprokit export", "MB", 300, [max(client.peaks.values())])


if __name__ == "__main__":
    report(__doc__, measures, {"image": "reprokit/fused-attention:cpu"}, pairs=5)
