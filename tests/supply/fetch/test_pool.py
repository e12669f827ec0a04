"""Many files, several processes, full disks, interruptions."""

from __future__ import annotations

import fcntl
import hashlib
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.display import reporting
from reprokit.errors import EngineError, SourceError
from reprokit.supply.fetch import download
from reprokit.supply.fetch.pool import FetchFailed, check_space, fetch_all
from reprokit.supply.fetch.progress import Progress
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own, connect
from tests.support.fetching import QUICK, Fetch, Here, content, want
from tests.support.file_server import Reply, Request, Server, cut, status, whole
from tests.support.paths import ROOT
from tests.support.processes import send_when_asleep
from tests.support.waiting import wait_for

DATA = content(2_000_000)


def small(server: Server, count: int) -> tuple[list[LockedInput], list[bytes]]:
    files = [content(500 + n, n) for n in range(count)]
    return [want(data, server.url(f"/{n}", whole(data)), name=f"{n}") for n, data in enumerate(files)], files


@pytest.mark.slow
def test_many_small_files_share_a_few_connections_that_outlive_refusals(fetch: Fetch, server: Server):
    wants, files = small(server, 150)
    done = fetch(*(replace(w, urls=(server.url("/no"), *w.urls)) for w in wants))
    assert all(map(fetch.has, files)) and fetch.left_over() == []
    assert (done.files, done.bytes) == (150, sum(map(len, files)))
    assert server.connections <= 6


def test_one_that_fails_does_not_stop_the_others(fetch: Fetch, server: Server):
    wants, files = small(server, 10)
    lost = [want(content(9), server.url("/no"), name="lost"), want(content(8), server.url("/busy", status(503)))]
    with pytest.raises(FetchFailed) as caught:
        fetch(*wants, *lost)
    assert all(map(fetch.has, files))
    assert [(f.locked.name, [r.gone for r in f.refusals.values()]) for f in caught.value.failures] == [
        ("file.bin", [False]),
        ("lost", [True]),
    ]
    assert f"lost: HTTP 404 ({server.url('/no')})" in caught.value.message
    assert fetch.left_over() == []
    with pytest.raises(FetchFailed, match=r"file\.bin: no address is known") as caught:
        fetch(want(DATA))
    assert not caught.value.failures[0].refusals


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts below `.test` that were connected to, in vain; others are connected as always."""
    hosts: list[str] = []

    def refuse(host: str, *arguments: Any) -> socket.socket:
        if not host.endswith(".test"):
            return connect(host, *arguments)
        hosts.append(host)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("reprokit.supply.fetch.http.connect", refuse)
    return hosts


def test_hosts_that_refuse_are_not_asked_for_every_file(fetch: Fetch, connections: list[str]):
    hosts = ("one.test", "two.test")
    wants = [want(content(9, n), *(f"http://{host}/{n}" for host in hosts), name=str(n)) for n in range(50)]
    message = r"^no host of files can be reached: one.test, two.test: Connection refused$"
    with pytest.raises(FetchFailed, match=message) as caught:
        fetch(*wants)
    assert "REPROKIT_FILES_MIRRORS" in caught.value.hint
    # Each of the parallel downloads may ask once before the others have failed, and one more time.
    assert all(connections.count(host) <= 2 * QUICK.parallel for host in hosts)
    assert fetch.lines == []


def test_a_lost_host_is_named_once_if_another_has_the_files(fetch: Fetch, server: Server, connections: list[str]):
    wants, files = small(server, 30)
    fetch(*(replace(w, urls=("http://one.test/f", *w.urls)) for w in wants))
    assert all(map(fetch.has, files)) and connections.count("one.test") <= QUICK.parallel
    assert fetch.lines == ["one.test cannot be reached (Connection refused); continuing with other mirrors"]


@pytest.mark.usefixtures("connections")
def test_a_kind_without_any_host_stops_the_downloads_of_others(fetch: Fetch, server: Server):
    stall = Reply(200, {"Content-Length": str(len(DATA))}, DATA[:1000], after=server.closing.wait)
    lost = [replace(want(content(9, n), f"http://one.test/{n}"), kind="apt") for n in range(9)]
    with pytest.raises(FetchFailed, match=r"^no host of apt can be reached: one.test: Connection refused$"):
        fetch(want(DATA, server.url("/f", lambda request: stall)), *lost)


def test_offline_asks_nobody_and_names_what_is_missing(fetch: Fetch, server: Server):
    wants, _ = small(server, 3)
    fetch(wants[0])
    server.requests.clear()
    with pytest.raises(SourceError, match="2 files are not in the store: 1, 2"):
        fetch(*wants, offline=True)
    assert fetch(wants[0], offline=True).bytes == 0 and not server.requests


def test_a_damaged_file_of_the_store_is_fetched_again(fetch: Fetch, server: Server):
    file = want(DATA, server.url("/f", whole(DATA)))
    fetch(file)
    fetch.store.path(file.sha256).write_bytes(b"short")
    fetch(file)
    assert fetch.has(DATA)


def test_files_of_a_folder_are_copied(fetch: Fetch, tmp_path: Path):
    settings = replace(QUICK, own=Own.of([tmp_path.as_uri()]))  # of a user whose configuration names the folder
    (tmp_path / "a file").write_bytes(DATA)
    (tmp_path / "other").write_bytes(DATA[:-1] + b"!")
    with pytest.raises(SourceError, match="has changed upstream"):
        fetch(want(DATA, (tmp_path / "other").as_uri()), settings=settings)
    fetch.places.reports.clear()
    fetch.partial(DATA[:1000], of=DATA)
    file = want(DATA, (tmp_path / "gone").as_uri(), (tmp_path / "a file").as_uri())
    assert fetch(file, settings=settings).bytes == len(DATA) - 1000
    assert fetch.has(DATA) and (tmp_path / "a file").read_bytes() == DATA
    assert [error for _, error in fetch.places.reports] == ["No such file or directory", None]


def test_missing_bytes_must_fit_on_the_disk(fetch: Fetch, server: Server, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(EngineError, match=r"not enough disk space: need 1000000000.0 GB, [\d.]+ .?B free") as caught:
        fetch(replace(want(DATA, server.url("/f")), size=10**18))
    assert caught.value.where == str(fetch.store.root) and not server.requests
    free = 5 << 30  # the real number changes while other tests run
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    big = LockedInput("files", "big", "0" * 64, free + (1 << 30))
    with pytest.raises(EngineError):
        check_space([big], Store(fetch.store.root / "new"))
    path = download.partial_folder(fetch.store) / big.sha256
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(2 << 30)  # sparse: takes no room
    check_space([big], fetch.store)


def program(body: str, *arguments: object) -> list[str]:
    """A process that runs `body` with `fetch`, whose store is in the first of the arguments."""
    head = """
import resource, sys
from pathlib import Path
from reprokit.errors import EngineError
from reprokit.supply.fetch.http import Settings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from tests.support.fetching import LOCAL, Fetch, Here, content, want
fetch = Fetch(Store(Path(sys.argv[1])))
url = sys.argv[2]
"""
    return [sys.executable, "-c", head + body, *map(str, arguments)]


@pytest.mark.slow
def test_a_full_disk_is_said_and_keeps_what_came(server: Server, tmp_path: Path):
    """A small disk that fills up after the check for space."""
    code = f"""
root = fetch.store.root
class Filling(Here):
    def urls(self, want):
        (root / "other").write_bytes(bytes(2_500_000))
        return super().urls(want)
fetch.places = Filling(fetch.store)
data = content({len(DATA)})
try:
    fetch(want(data, url))
except EngineError as error:
    print(error.message, error.hint)
came = (root / "partial" / want(data).sha256).read_bytes()
assert 1_000_000 < len(came) < len(data) and data.startswith(came)
(root / "other").unlink()
fetch.places = Here(fetch.store)
fetch(want(data, url))
assert fetch.has(data)
"""
    disk = tmp_path / "disk"
    disk.mkdir()
    inside = f'mount -t tmpfs -o size=4m none "{disk}" && exec "$@"'
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a mount namespace")
    run = program(code, disk, server.url("/f", whole(DATA)))
    run = ["unshare", "--map-root-user", "--mount", "sh", "-c", inside, "sh", *run]
    done = subprocess.run(run, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    why = r"the disk is full free \d+ .B there: `reprokit store gc` .*; downloaded parts are kept\n"
    assert re.fullmatch(why, done.stdout)
    assert server.requests["/f"][1].start


@pytest.mark.slow
def test_two_processes_share_a_download(fetch: Fetch, server: Server):
    begun, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> Reply:
        begun.set()
        go_on.wait(120)
        return whole(DATA)(request)

    def notified(line: str) -> None:
        assert "another process that fetches it" in line
        go_on.set()

    url = server.url("/f", slow)
    code = f"fetch(want(content({len(DATA)}), url), settings=Settings(own=LOCAL))"
    with subprocess.Popen(program(code, fetch.store.root, url), cwd=ROOT) as other:
        assert begun.wait(120)
        with reporting(notified):
            done = fetch_all([want(DATA, url)], fetch.places)
    assert other.returncode == 0 and len(server.requests["/f"]) == 1
    assert (done.bytes, done.stored_bytes) == (0, len(DATA))
    assert fetch.has(DATA) and fetch.left_over() == []


def test_what_a_dead_process_left_is_used(fetch: Fetch, server: Server):
    path = fetch.partial(DATA[:1000], of=DATA)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    fetch(want(DATA, server.url("/f", whole(DATA))))
    assert server.requests["/f"][0].start == 1000
    assert fetch.has(DATA) and fetch.left_over() == []


@pytest.mark.slow
def test_an_interrupted_fetch_ends_at_once_and_is_gone_on_with(fetch: Fetch, server: Server):
    """The server is silent and the time limit long, so only the signal can end the download."""
    half, seen = DATA[: len(DATA) // 2], threading.Event()

    def stall(request: Request) -> Reply:
        return Reply(200, {"Content-Length": str(len(DATA))}, half, after=lambda: (seen.set(), server.closing.wait()))

    url = server.url("/f", stall, whole(DATA))
    code = f"""
try:
    fetch(want(content({len(DATA)}), url), settings=Settings(stall_s=3600, own=LOCAL))
except KeyboardInterrupt:
    sys.exit(130)
"""
    process = subprocess.Popen(program(code, fetch.store.root, url), cwd=ROOT)
    path = download.partial_folder(fetch.store) / want(DATA).sha256
    assert seen.wait(120)
    wait_for(lambda: path.stat().st_size == len(half))
    send_when_asleep(process.pid)
    assert process.wait(120) == 130
    assert path.read_bytes() == half
    fetch(want(DATA, url))
    assert fetch.has(DATA) and server.requests["/f"][1].start == len(half)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(fetch: Fetch, server: Server):
    """The kernel refuses more memory than that."""
    size = 150_000_000
    url = server.url("/f", lambda request: Reply(200, {"Content-Length": str(size)}, bytes(size)))
    digest = hashlib.sha256(bytes(size)).hexdigest()
    code = f"""
before = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (before + 60_000_000, -1))
fetch(LockedInput("files", "big", "{digest}", {size}, {{}}, (url,)))
# Not ru_maxrss, which counts the process that forked this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    run = program(code, fetch.store.root, url)
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < size and fetch.store.path(digest).stat().st_size == size


def test_progress_counts_what_earlier_runs_left(fetch: Fetch, server: Server):
    fetch.partial(DATA[:500_000], of=DATA)
    seen: list[Progress] = []
    fetch_all([want(DATA, server.url("/f", cut(DATA, 400_000)))], Here(fetch.store), seen.append)
    assert (seen[-1].files_done, seen[-1].bytes_done) == (1, len(DATA)) == (seen[-1].files_total, seen[-1].bytes_total)
    assert all(progress.bytes_done >= 500_000 for progress in seen if progress.names and progress.bytes_done)
