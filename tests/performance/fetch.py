"""What downloads cost, measured beside curl: `make bench`.

Interleaved pairs, each side in a process of its own, against a server on this machine that sends from the page cache.
The disk is left to settle before each, so that none pays for what another one wrote. Of reprokit the download is timed,
with hash and fsync; what its start costs, measure.py tells.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Client, Measure, in_pairs, report

GIB = 1 << 30
GIGABIT = 125_000_000  # bytes a second
SMALL, SMALL_FILES = 4096, 20_000
SO_MAX_PACING_RATE = 47
PARALLEL = 6


def serve(file: Path, listener: socket.socket, connections: multiprocessing.sharedctypes.Synchronized[int]) -> None:
    """Answer `/RATE/OFFSET/LENGTH`: that part of the file, at RATE bytes a second or, with 0, as fast as it goes."""
    source = os.open(file, os.O_RDONLY)

    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as stream:
            while request := stream.readline():
                while stream.readline().strip():
                    pass
                rate, offset, length = map(int, request.split()[1].strip(b"/").split(b"/"))
                if rate:
                    connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
                end = offset + length
                while offset < end:
                    offset += os.sendfile(connection.fileno(), source, offset, end - offset)

    while True:
        connection, _ = listener.accept()
        with connections.get_lock():
            connections.value += 1
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def fetch(wanted: str, store: str) -> None:
    """Be a process that fetches: `wanted` is a file of JSON lists of address, sha256 and size."""
    from reprokit.supply.fetch.download import OwnAddresses
    from reprokit.supply.fetch.http import Settings
    from reprokit.supply.fetch.pool import fetch_all
    from reprokit.supply.locked_input import LockedInput
    from reprokit.supply.store import Store
    from reprokit.untrusted.addresses import Own

    lists = json.loads(Path(wanted).read_text())
    wants = [LockedInput("files", str(n), sha256, size, {}, (url,)) for n, (url, sha256, size) in enumerate(lists)]
    places = OwnAddresses(Store(Path(store)), Settings(PARALLEL, own=Own.of(["127.0.0.1"])))
    started = time.monotonic()
    assert fetch_all(wants, places).files == len(wants)
    print(time.monotonic() - started)


class Bench:
    """A file in the client's home that is served, and what is to be fetched of it."""

    def __init__(self, client: Client) -> None:
        self.client, self.home = client, client.home
        self.connections = multiprocessing.Value("i", 0)
        self.file = self.home / "served"
        with self.file.open("wb") as file:
            for _ in range(GIB >> 20):
                file.write(os.urandom(1 << 20))
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.server = multiprocessing.Process(target=serve, args=(self.file, listener, self.connections), daemon=True)
        self.server.start()

    def want(self, name: str, parts: list[tuple[int, int, int]]) -> list[list[object]]:
        """Write down `(rate, offset, length)` as what a fetching process is to bring."""
        wanted: list[list[object]] = []
        with self.file.open("rb") as file:
            for rate, offset, length in parts:
                file.seek(offset)
                digest = hashlib.sha256()
                for at in range(0, length, 1 << 20):
                    digest.update(file.read(min(1 << 20, length - at)))
                wanted.append([f"{self.address}/{rate}/{offset}/{length}", digest.hexdigest(), length])
        (self.home / name).write_text(json.dumps(wanted))
        return wanted

    def settle(self) -> None:
        """Remove what was fetched before, and let the disk settle."""
        for folder in ("store", "out"):
            shutil.rmtree(self.home / folder, ignore_errors=True)
        (self.home / "out").mkdir()
        os.sync()

    def ours(self, name: str) -> float:
        self.settle()
        command = (sys.executable, str(Path(__file__).resolve()), "--fetch", name, "store")
        return self.client.seconds(*command, printed=True)

    def theirs(self, command: str) -> float:
        self.settle()
        return self.client.seconds("sh", "-ec", command)

    def beside(self, name: str, limit: float, wanted: str, command: str, count: int) -> Measure:
        def ours() -> float:
            return self.ours(wanted)

        def theirs() -> float:
            return self.theirs(command)

        return Measure(name, "x", limit, in_pairs(ours, theirs, count))


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    if shutil.which("curl") is None:
        yield Measure("downloads", "x", 1.05, skipped="there is no curl")
        return
    bench = Bench(client)
    for name, limit, rate, after in (
        ("1 GiB at 1 Gbit/s / curl -o F", 1.05, GIGABIT, ""),
        ("1 GiB / curl -o F && sha256sum F", 1.5, 0, " && sha256sum out/F"),
    ):
        ((url, _, _),) = bench.want("one", [(rate, 0, GIB)])
        yield bench.beside(name, limit, "one", f"curl --fail --silent -o out/F {url}{after}", options.pairs)
    wanted = bench.want("many", [(0, n * SMALL, SMALL) for n in range(SMALL_FILES)])
    lines = [f'url = "{url}"\noutput = "out/{sha256}"\n' for url, sha256, _ in wanted]
    (bench.home / "curl").write_text("".join(lines))
    (bench.home / "sums").write_text("".join(f"{sha256}  out/{sha256}\n" for _, sha256, _ in wanted))
    command = "curl --fail --silent -K curl && sha256sum -c --quiet sums && sync"
    name = f"{SMALL_FILES} files of 4 KiB / one curl, sha256sum, sync"
    yield bench.beside(name, 2.0, "many", command, max(1, options.pairs // 2))
    before = bench.connections.value
    bench.ours("many")
    yield Measure(f"connections of {SMALL_FILES} files", "", PARALLEL, [bench.connections.value - before])
    yield Measure("peak memory of a fetch", "MB", 200, [max(client.peaks.values())])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fetch"]:
        fetch(*sys.argv[2:])
    else:
        report(__doc__, measures, pairs=3)
