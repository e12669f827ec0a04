from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reprokit.config import MirrorEntry
from reprokit.errors import SourceError
from reprokit.recipe.model import Data
from reprokit.recipe.packages import RecipeFile
from reprokit.supply.kinds.files import lock_file, moved_files
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.upstream import Upstream

BYTES = b"a model"
SHA256 = hashlib.sha256(BYTES).hexdigest()


def lock(file: RecipeFile | Data, store: Store, *mirrors: MirrorEntry) -> PlainFile:
    return lock_file(file, local_mirrors(store, *mirrors), lambda line: None)


def wanted(upstream: Upstream, sha256: str | None = None, path: str = "/a/model.bin") -> RecipeFile:
    return RecipeFile(name="model.bin", urls=[f"http://127.0.0.1:{upstream.port}{path}"], sha256=sha256, path="/m")


def methods(upstream: Upstream) -> list[str]:
    return [method for method, _, _, _ in upstream.requests]


def test_a_known_checksum_needs_the_size_alone(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {}, BYTES)
    locked = lock(wanted(upstream, SHA256), store)
    assert (locked.sha256, locked.size) == (SHA256, len(BYTES))
    assert list(locked.urls) == wanted(upstream).urls
    assert methods(upstream) == ["HEAD"]


def test_an_unknown_checksum_is_learned_once(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {}, BYTES)
    locked = lock(wanted(upstream), store)
    assert (locked.sha256, locked.size) == (SHA256, len(BYTES))
    assert store.path(SHA256).read_bytes() == BYTES
    before = len(upstream.requests)
    assert lock(wanted(upstream, SHA256), store) == locked  # the store knows it now
    assert len(upstream.requests) == before


def test_data_is_locked_in_the_same_way(upstream: Upstream, store: Store):
    upstream.answers["/set.zip"] = (200, {}, BYTES)
    data = Data(name="set.zip", urls=[f"http://127.0.0.1:{upstream.port}/set.zip"], size="1GB")
    assert lock(data, store).sha256 == SHA256


def test_a_server_that_tells_no_size_is_asked_for_the_file(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {"Transfer-Encoding": "chunked"}, b"7\r\na model\r\n0\r\n\r\n")
    locked = lock(wanted(upstream, SHA256), store)
    assert (locked.sha256, locked.size) == (SHA256, len(BYTES))


def test_other_bytes_than_the_recipe_says_are_refused(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {"Transfer-Encoding": "chunked"}, b"7\r\na model\r\n0\r\n\r\n")
    with pytest.raises(SourceError) as error:
        lock(wanted(upstream, "1" * 64), store)
    assert "model.bin" in error.value.message
    assert f"expected sha256 {'1' * 64}, got {SHA256}" in error.value.message
    assert error.value.where == wanted(upstream).urls[0]


def test_the_next_address_is_asked_where_one_has_no_such_file(upstream: Upstream, store: Store):
    upstream.answers["/b/model.bin"] = (200, {}, BYTES)
    both = RecipeFile(
        name="model.bin", urls=[*wanted(upstream).urls, *wanted(upstream, path="/b/model.bin").urls], path="/m"
    )
    assert lock(both, store).sha256 == SHA256
    known = both.model_copy(update={"sha256": SHA256})
    assert lock(known, Store(store.root / "other")).size == len(BYTES)


def test_a_file_that_nobody_has(upstream: Upstream, store: Store):
    with pytest.raises(SourceError, match=r"model\.bin: .*HTTP 404"):
        lock(wanted(upstream), store)


def test_the_users_mirrors_come_first(upstream: Upstream, store: Store, tmp_path: Path):
    (tmp_path / "model.bin").write_bytes(BYTES)
    mirror = MirrorEntry("files", f"file://{tmp_path}/{{name}}", "test")
    assert lock(wanted(upstream), store, mirror).sha256 == SHA256
    assert lock(wanted(upstream, SHA256), store, mirror).size == len(BYTES)
    assert methods(upstream) == []


def test_what_moved(upstream: Upstream, store: Store):
    for path in ("/same", "/grown", "/gone"):
        upstream.answers[path] = (200, {}, BYTES)
    locked = [lock(wanted(upstream, path=p).model_copy(update={"name": p[1:]}), store) for p in upstream.answers]
    settings = local_mirrors(store).settings
    assert moved_files(locked, settings) == []
    upstream.answers["/grown"] = (200, {}, BYTES + b"!")
    del upstream.answers["/gone"]
    assert moved_files(locked, settings) == [
        Moved("files", "gone", SHA256, "", "vanished"),
        Moved("files", "grown", "7 bytes", "8 bytes", "changed"),
    ]


def test_a_file_whose_addresses_do_not_answer_is_unknown(upstream: Upstream, store: Store):
    upstream.answers["/a/model.bin"] = (200, {}, BYTES)
    locked = lock(wanted(upstream), store)
    upstream.answers["/a/model.bin"] = (503, {}, b"")
    [found] = moved_files([locked], local_mirrors(store).settings)
    assert (found.what, found.upstream) == ("unknown", f"{locked.urls[0]}: HTTP 503")
    several = locked.model_copy(update={"urls": (locked.urls[0], locked.urls[0].replace("/a/", "/b/"))})
    upstream.answers["/b/model.bin"] = (200, {}, BYTES)
    assert moved_files([several], local_mirrors(store).settings) == []
