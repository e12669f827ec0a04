"""The cost of bundles beside `docker save | zstd -3 -T0`, on one machine in one run: `make bench`.

Interleaved pairs, in alternating order; the disk is left to settle before each, so that none pays for what another one
wrote. The image is the demo's, 1.5 GB of real packages, unless another is named.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Client, Measure, in_pairs

from reprokit.engine import Engine

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
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, data in ((f"added-{seed}", content), ("Dockerfile", f"FROM {base}\nCOPY added-{seed} /\n".encode())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    reference = f"{NAME}:{tag}"
    for event in engine.build(io.BytesIO(context.getvalue()), tag=reference):
        if "error" in event:
            raise RuntimeError(event["error"])
    try:
        yield reference
    finally:
        engine.remove_image(reference, force=True)


def layer_size(bundle: Path, number: int) -> int:
    """Bytes of a layer's blob."""
    with tarfile.open(bundle) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        return tar.getmember(manifest[0]["Layers"][number]).size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="reprokit/fused-attention:cpu")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    engine = Engine.connect()
    if engine.image(chosen.image) is None:
        sys.exit(f"no image {chosen.image}: `make demo` makes the one that is measured")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        client = Client(str(Path(sys.executable).with_name("reprokit")), Path(folder))
        bench = Bench(client, chosen.image)
        found = [bench.size(), *bench.two(engine), bench.time(chosen.pairs)]
        found.append(Measure("memory of reprokit export", "MB", 300, [max(client.peaks.values())]))
    if chosen.json:
        print(json.dumps([each.data() for each in found], indent=2))
    else:
        print(*(each.line() for each in found), sep="\n")


if __name__ == "__main__":
    main()
