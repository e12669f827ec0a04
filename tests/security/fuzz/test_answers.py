"""Answers of registries, servers, nodes and tools that were spoilt."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import urllib3
from hypothesis import given
from hypothesis import strategies as st

from reprokit.config.nodes import Node
from reprokit.errors import ReprokitError
from reprokit.nodes import remote_staging, survey
from reprokit.nodes.remote import Remote
from reprokit.supply import locked_input
from reprokit.supply.fetch.http import Client, Refusal, Settings
from reprokit.supply.hosts import FailingHosts
from reprokit.supply.kinds.apt import resolve as aptoutput
from reprokit.supply.kinds.wheels import index as wheels
from reprokit.supply.store import Store
from tests.support.fuzzing import Watch, fuzzed, lines, spoilt, trees

DIGEST = "sha256:" + "1" * 64


ADDRESSES = ("http://h.test/x", "https://u:p@h.test:443/a?b#c", "../y", "http://[::1]:80/")


class Redirecting:
    """In place of urllib3's pool: one redirect, then the end."""

    def __init__(self, location: str) -> None:
        self._location = location

    def request(self, method: str, url: str, **options: Any) -> Any:
        location, self._location = self._location, ""
        status, headers = (302, {"Location": location}) if location else (200, {})
        return urllib3.HTTPResponse(io.BytesIO(b"x"), headers, status, preload_content=False)


def follow(url: str, location: str) -> None:
    client, pool = Client(Settings()), Redirecting(location)
    client._pool = lambda address: pool  # type: ignore[assignment, method-assign, return-value]
    with contextlib.suppress(Refusal), client.ask(url) as answer:
        answer.read()


@fuzzed
@given(lines(*ADDRESSES), lines(*ADDRESSES))
def test_addresses_and_redirects(watch: Watch, url: str, location: str) -> None:
    watch(lambda: follow(url, location))


class Connection:
    """A node that answers every script alike."""

    node = Node("far", "far")

    def __init__(self, output: str) -> None:
        self._output = output

    def run(self, script: str, *more: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(script, 0, self._output, "")


LAYERS = [{"mediaType": "m", "digest": DIGEST, "size": 1}]
IMAGE = {"id": DIGEST, "tags": ["x:1"], "layers": [DIGEST], "size": 7, "labels": {"reprokit.recipe": "x"}}
INVENTORY: list[Any] = [
    {"Version": "28.0", "Arch": "amd64"}, [["driver-type", "io.containerd.snapshotter.v1"]], "/x", 99, True, IMAGE,
    {"manifest": DIGEST, "content": {"config": {"digest": DIGEST}, "layers": LAYERS}},
]  # fmt: skip
PROBE = """reprokit:uid 1000
reprokit:gid 1000
reprokit:groups 1000 27
reprokit:user me
reprokit:cache /home/me/.cache
reprokit:memory MemTotal:       32000000 kB
reprokit:proxy http_proxy=http://proxy.test:3128
reprokit:listening    0: 00000000:0016 00000000:0000 0A 0
reprokit:gpu NVIDIA GeForce RTX 3090, 535.54.03, 8.6
reprokit:file /etc/cdi/x.json
{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}
reprokit:file /etc/cdi/x.yaml
kind: nvidia.com/gpu
devices: [{name: "0"}]
reprokit: incoming
/home/me/.cache/reprokit/incoming/s
123456
99 abc.part
"""


def ask_node(output: str) -> None:
    connection: Any = Connection(output)
    for question in (
        lambda: survey.inventory(connection),
        lambda: remote_staging.prepare(connection, "s"),
        lambda: Remote(connection).gpus(),
        lambda: Remote(connection).disk_free_bytes("/"),
        lambda: Remote(connection).cdi_devices(["/etc/cdi"]),
    ):
        with contextlib.suppress(ReprokitError):
            question()


def _printed(values: Any) -> str:
    lines = values if isinstance(values, list) else [values]
    return "reprokit: inventory\n" + "".join(f"{json.dumps(line)}\n" for line in lines)


@fuzzed
@given(st.one_of(trees(INVENTORY).map(_printed), lines(PROBE, _printed(INVENTORY))))
def test_node_answers(watch: Watch, output: str) -> None:
    watch(lambda: ask_node(output))


APT = f"""\
'http://deb.test/debian/pool/main/c/curl/curl_7.88.1-10_amd64.deb' curl_7.88.1-10_amd64.deb 315000 SHA256:{"a" * 64}
'http://other.test/x/./curl_1%3a2_amd64.deb' curl_1%3a2_amd64.deb 315000 SHA256:{"b" * 64}
 curl | 7.88.1-10 | http://deb.test/debian bookworm/main amd64 Packages
/var/lib/apt/lists/deb.test_debian_dists_bookworm_InRelease:Date: Sat, 05 Sep 2026 09:10:11 UTC
"""
PAGES = (
    b'<base href="http://a.test/"><a href="x-1-py3-none-any.whl#sha256=%s">x</a>' % (b"a" * 64),
    b'{"files": [{"url": "../x-1.whl", "hashes": {"sha256": "%s"}}]}' % (b"a" * 64),
)


def read_tools(text: str, page: bytes, folder: Path) -> None:
    with contextlib.suppress(ReprokitError):
        aptoutput.as_of(aptoutput.packages_of(text, Store(folder / "node")), text)
    kind = "application/json" if page[:1] == b"{" else "text/html"
    places = wheels.WheelIndex(
        ("https://index.test/simple",), FailingHosts(Store(folder / "node")), lambda url: (page, kind)
    )
    list(places.urls(WHEEL))


WHEEL = locked_input.LockedInput("wheels", "x", "a" * 64, 1, {"name": "x", "version": "1", "file": "x-1.whl"}, ())


@fuzzed
@given(lines(APT), spoilt(*PAGES))
def test_tools_and_indexes(watch: Watch, folder: Path, text: str, page: bytes) -> None:
    watch(lambda: read_tools(text, page, folder))
