from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask, environment
from tests.support.waiting import wait_for


def stored(store: Store, name: str, content: bytes) -> PlainFile:
    sha256 = hashlib.sha256(content).hexdigest()
    store.path(sha256).parent.mkdir(parents=True, exist_ok=True)
    store.path(sha256).write_bytes(content)
    return PlainFile(name=name, sha256=sha256, size=len(content), urls=("https://example.org/x",))


@pytest.fixture
def gateway(store: Store):
    files = (stored(store, "a+b.tar.gz", b"0123456789"), stored(store, "empty", b""))
    with Gateway(store, ServedSet(files=files)) as running:
        yield running


def test_files_by_name(gateway: Gateway, tmp_path: Path):
    address = gateway.inputs.arguments()["REPROKIT_FILES"]
    for name, content in (("a+b.tar.gz", "0123456789"), ("empty", "")):
        command = ["curl", "-fsSL", f"{address}{name}"]
        done = subprocess.run(command, env=environment(gateway, tmp_path), capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, content, "")
    answer, body = ask(gateway, f"{address}a%2Bb.tar.gz", "HEAD")
    assert (answer.status, answer.getheader("Content-Length"), body) == (200, "10", b"")
    wait_for(lambda: gateway.bytes_served >= 10)
    assert gateway.bytes_served == 10


def test_a_part_of_a_file(gateway: Gateway):
    address = gateway.inputs.arguments()["REPROKIT_FILES"]
    answer, body = ask(gateway, f"{address}a+b.tar.gz", Range="bytes=7-")
    assert (answer.status, body, answer.getheader("Content-Range")) == (206, b"789", "bytes 7-9/10")
    answer, _ = ask(gateway, f"{address}a+b.tar.gz", Range="bytes=10-")
    assert (answer.status, answer.getheader("Content-Range")) == (416, "bytes */10")


def test_what_is_not_locked_is_named(gateway: Gateway):
    address = gateway.inputs.arguments()["REPROKIT_FILES"]
    answer, body = ask(gateway, f"{address}stranger.zip")
    assert (answer.status, body) == (404, b"reprokit gateway: stranger.zip is not in the lock\n")
    assert gateway.missing == {"stranger.zip": 1}
    assert ask(gateway, "http://files.reprokit.invalid/0123456789abcdef/empty")[0].status == 404


def test_other_content_is_another_address(store: Store):
    one, two = (ServedSet(files=(stored(store, "name", content),)) for content in (b"1", b"2"))
    assert one.arguments()["REPROKIT_FILES"] != two.arguments()["REPROKIT_FILES"]
    assert "REPROKIT_FILES" not in ServedSet().arguments()


def test_without_files_or_conda_packages_a_build_asks_for_the_original_addresses():
    """The gateway then names what was not locked. apt, wheels and git would use their own indexes instead."""
    arguments = ServedSet(files=(), conda=(), apt=()).arguments()
    assert arguments.keys() == {"REPROKIT_APT", "REPROKIT_WHEELS", "REPROKIT_GIT", "REPROKIT_ARCHIVES"}
