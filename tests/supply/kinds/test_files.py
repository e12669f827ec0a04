from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from reprokit.config import MirrorEntry
from reprokit.errors import SourceError
from reprokit.recipe.model import Data, RecipeFile
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.files import changed_files, lock_file
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask, environment
from tests.support.fetching import local_mirrors
from tests.support.stores import plain, put
from tests.support.upstream import Upstream
from tests.support.waiting import wait_for

BYTES = b"a model"
SHA256 = hashlib.sha256(BYTES).hexdigest()


def lock(file: RecipeFile | Data, store: Store, *mirrors: MirrorEntry) -> PlainFile:
    return lock_file(file, local_mirrors(store, *mirrors))


def requested(upstream: Upstream, sha256: str | None = None, path: str = "/a/model.bin") -> RecipeFile:
    return RecipeFile(name="model.bin", urls=[f"http://127.0.0.1:{upstream.port}{path}"], sha256=sha256, path="/m")


def methods(upstream: Upstream) -> list[str]:
    return [method for method, _, _, _ in upstream.requests]


def test_a_checksum_that_is_known_needs_the_size_alone_and_another_is_learned(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {}, BYTES)
    locked = lock(requested(upstream, SHA256), store)
    assert (locked.sha256, locked.size) == (SHA256, len(BYTES))
    assert list(locked.urls) == requested(upstream).urls
    assert methods(upstream) == ["HEAD"]
    assert lock(requested(upstream), store) == locked
    assert store.path(SHA256).read_bytes() == BYTES
    before = len(upstream.requests)
    assert lock(requested(upstream, SHA256), store) == locked  # the store knows it now
    assert len(upstream.requests) == before
    data = Data(name="set.zip", urls=[f"http://127.0.0.1:{upstream.port}/a/model.bin"], size="1GB")
    assert lock(data, store).sha256 == SHA256


def test_a_server_that_tells_no_size_is_asked_for_the_file(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {"Transfer-Encoding": "chunked"}, b"7\r\na model\r\n0\r\n\r\n")
    locked = lock(requested(upstream, SHA256), store)
    assert (locked.sha256, locked.size) == (SHA256, len(BYTES))
    with pytest.raises(SourceError) as error:
        lock(requested(upstream, "1" * 64), store)
    assert "model.bin" in error.value.message
    assert f"expected sha256 {'1' * 64}, got {SHA256}" in error.value.message
    assert error.value.where == requested(upstream).urls[0]


def test_the_next_address_is_asked_if_one_has_no_such_file(upstream: Upstream, store: Store):
    with pytest.raises(SourceError, match=r"model\.bin: .*HTTP 404"):
        lock(requested(upstream), store)
    upstream.answers["/b/model.bin"] = (200, {}, BYTES)
    urls = [*requested(upstream).urls, *requested(upstream, path="/b/model.bin").urls]
    both = RecipeFile(name="model.bin", urls=urls, path="/m")
    assert lock(both, store).sha256 == SHA256
    known = both.model_copy(update={"sha256": SHA256})
    assert lock(known, Store(store.root / "other")).size == len(BYTES)


def test_the_users_mirrors_come_first(upstream: Upstream, store: Store, tmp_path: Path):
    (tmp_path / "model.bin").write_bytes(BYTES)
    mirror = MirrorEntry("files", f"file://{tmp_path}/{{name}}", "test")
    assert lock(requested(upstream), store, mirror).sha256 == SHA256
    assert lock(requested(upstream, SHA256), store, mirror).size == len(BYTES)
    assert methods(upstream) == []


def test_what_moved(upstream: Upstream, store: Store):
    for path in ("/same", "/grown", "/gone"):
        upstream.answers[path] = (200, {}, BYTES)
    locked = [lock(requested(upstream, path=p).model_copy(update={"name": p[1:]}), store) for p in upstream.answers]
    settings = local_mirrors(store).settings
    assert changed_files(locked, settings) == []
    upstream.answers["/grown"] = (200, {}, BYTES + b"!")
    del upstream.answers["/gone"]
    assert changed_files(locked, settings) == [
        UpstreamChange("files", "gone", SHA256, "", "vanished"),
        UpstreamChange("files", "grown", "7 bytes", "8 bytes", "changed"),
    ]
    upstream.answers["/same"] = (503, {}, b"")
    [unknown] = changed_files([locked[0]], settings)
    assert (unknown.what, unknown.upstream) == ("unknown", f"{locked[0].urls[0]}: HTTP 503")
    urls = (locked[0].urls[0], locked[0].urls[0].replace("/same", "/other"))
    upstream.answers["/other"] = (200, {}, BYTES)
    assert changed_files([locked[0].model_copy(update={"urls": urls})], settings) == []


@pytest.fixture
def gateway(store: Store):
    contents = {"a+b.tar.gz": b"0123456789", "empty": b""}
    for content in contents.values():
        put(store, content)
    with Gateway(
        Mirrors(store), ServedSet(files=[plain(content, name) for name, content in contents.items()])
    ) as running:
        yield running


def test_files_are_served_by_name(gateway: Gateway, tmp_path: Path):
    address = gateway.inputs.arguments()["REPROKIT_FILES"]
    for name, content in (("a+b.tar.gz", "0123456789"), ("empty", "")):
        command = ["curl", "-fsSL", f"{address}{name}"]
        done = subprocess.run(command, env=environment(gateway, tmp_path), capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, content, "")
    answer, body = ask(gateway, f"{address}a%2Bb.tar.gz", "HEAD")
    assert (answer.status, answer.getheader("Content-Length"), body) == (200, "10", b"")
    wait_for(lambda: gateway.bytes_served >= 10)
    assert gateway.bytes_served == 10
    answer, body = ask(gateway, f"{address}a+b.tar.gz", Range="bytes=7-")
    assert (answer.status, body, answer.getheader("Content-Range")) == (206, b"789", "bytes 7-9/10")
    answer, _ = ask(gateway, f"{address}a+b.tar.gz", Range="bytes=10-")
    assert (answer.status, answer.getheader("Content-Range")) == (416, "bytes */10")
    answer, body = ask(gateway, f"{address}stranger.zip")
    assert (answer.status, body) == (404, b"reprokit gateway: stranger.zip is not in the lock\n")
    assert gateway.missing == {"stranger.zip": 1}
    assert ask(gateway, "http://files.reprokit.invalid/0123456789abcdef/empty")[0].status == 404


def test_addresses_depend_on_the_content():
    one, two = (ServedSet(files=(plain(content, "name"),)).arguments()["REPROKIT_FILES"] for content in (b"1", b"2"))
    assert one != two and "REPROKIT_FILES" not in ServedSet().arguments()
    # Without files or conda packages a build asks for the original addresses, and the gateway names what was not
    # locked. apt, wheels and git would use their own indexes instead.
    arguments = ServedSet(files=(), conda=(), apt=()).arguments()
    assert arguments.keys() == {"REPROKIT_APT", "REPROKIT_WHEELS", "REPROKIT_GIT", "REPROKIT_ARCHIVES"}
