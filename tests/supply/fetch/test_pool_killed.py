"""A fetching process killed at random moments."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import sys
import time

import pytest

from tests.support.fetching import Fetch, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, whole
from tests.support.paths import ROOT

PIECE = 1 << 16
# Forks a fetching process for each line and kills it after that many seconds, or never at 0. Prints its status.
DRIVER = """
import os, signal, sys, time, traceback
from pathlib import Path
from reprokit.supply.fetch.http import Settings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from tests.support.fetching import LOCAL, Fetch
wants = eval(sys.stdin.readline())
fetch = Fetch(Store(Path(sys.argv[1])))
for line in sys.stdin:
    process = os.fork()
    if not process:
        try:
            fetch(*wants, settings=Settings(own=LOCAL))  # a busy machine stalls longer than QUICK allows
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if float(line):
        time.sleep(float(line))
        os.kill(process, signal.SIGKILL)
    print(os.waitpid(process, 0)[1], flush=True)
"""


def slowly(data: bytes) -> Behaviour:
    """A correct server on a connection of 20 MB/s."""

    def reply(request: Request) -> Reply:
        good = whole(data)(request)
        return Reply(good.status, good.headers, good.body, piece=PIECE, pause=lambda: time.sleep(PIECE / 20e6))

    return reply


def verify(fetch: Fetch) -> int:
    """The number of published files, after checking that each has the bytes of its name."""
    published = list((fetch.store.root / "sha256").glob("*/*"))
    for path in published:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    return len(published)


@pytest.mark.long
@pytest.mark.kills(5)
def test_a_store_bears_kills_at_any_moment(fetch: Fetch, server: Server, kills: int):
    chance = random.Random(kills)
    big = [content(6_000_000, seed) for seed in (1, 2)]
    files = [*big, *(content(3000 + seed, seed) for seed in range(3, 303))]
    wants = [want(data, server.url(f"/{n}", slowly(data)), name=f"{n}") for n, data in enumerate(files)]
    kept, dead, latest = dict.fromkeys(big, 0), 0, 0.1

    def resumed() -> bool:
        return any(request.start for path in ("/0", "/1") for request in server.requests[path])

    command = [sys.executable, "-c", DRIVER, str(fetch.store.root)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{wants!r}\n")
        while dead < kills or (dead < 20 * kills and not resumed()):
            process.stdin.write(f"{chance.uniform(0.001, latest)}\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            assert status in (0, 9)
            verify(fetch)
            if not any(kept.values()):
                latest = min(latest * 1.2, 10)  # on a busy machine nothing was written before it died
            for data in big:
                partial = fetch.store.root / "partial" / want(data).sha256
                size = len(data) if fetch.has(data) else partial.stat().st_size if partial.exists() else 0
                assert size >= kept[data], "a kill lost what was written"
                kept[data] = size
            if status == 9:
                dead += 1
            else:  # it was quicker: all over again
                shutil.rmtree(fetch.store.root / "sha256")
                kept = dict.fromkeys(big, 0)
        process.stdin.write("0\n")
        process.stdin.flush()
        assert process.stdout.readline() == "0\n"
        process.stdin.close()
    assert verify(fetch) == len(files) and fetch.left_over() == [] and resumed()
