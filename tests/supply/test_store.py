from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from reprokit.display import reporting
from reprokit.supply.store import Store, key_of


def test_content_is_kept_once_under_its_checksum(store: Store):
    for _ in range(2):
        with store.scratch() as scratch:
            file = Path(scratch) / "a"
            file.write_bytes(b"bytes")
            (Path(scratch) / "half").write_text("x")
            sha256 = store.add(file)
            assert not file.exists()
        assert not list((store.root / "tmp").iterdir())
    assert sha256 == hashlib.sha256(b"bytes").hexdigest()
    assert store.path(sha256).read_bytes() == b"bytes"
    assert [p.name for p in (store.root / "sha256").glob("*/*")] == [sha256]


def test_answers_are_remembered_until_they_are_damaged(store: Store):
    assert store.remembered("wheels", "k") is None
    store.remember("wheels", "k", [{"a": 1}])
    assert Store(store.root).remembered("wheels", "k") == [{"a": 1}]
    (store.root / "index" / "wheels" / "k.json").write_text("[1")
    assert store.remembered("wheels", "k") is None
    # Keys do not depend on the order of fields.
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}) != key_of({"a": 2, "b": 1})


def test_locks_that_were_used_are_known_for_as_long_as_they_exist(store: Store, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.lock.yaml", "a.lock.yaml", "gone.lock.yaml"):
        Path(name).touch()
        for _ in range(2):
            store.used(Path(name))
    Path("gone.lock.yaml").unlink()
    assert Store(store.root).used_locks() == [tmp_path / "a.lock.yaml", tmp_path / "b.lock.yaml"]


def test_users_share_the_store_and_who_frees_space_waits_for_all(store: Store):
    order: list[str] = []

    def free() -> None:
        with store.alone():
            order.append("alone")

    with reporting(order.append), store.in_use(), store.in_use():
        freeing = threading.Thread(target=free)
        freeing.start()
        while not order:
            freeing.join(0.01)
        with store.scratch():  # one who waits to be alone holds up no user
            order.append("used")
    freeing.join()
    assert order == ["waiting for a fetch or build that uses the store to end", "used", "alone"]


def test_users_wait_while_space_is_freed(store: Store):
    order: list[str] = []

    def use() -> None:
        with store.in_use():
            order.append("used")

    with reporting(order.append), store.alone():
        user = threading.Thread(target=use)
        user.start()
        while not order:
            user.join(0.01)
        order.append("freed")
    user.join()
    assert order == ["waiting for `reprokit store gc` or `reprokit clean` to end", "freed", "used"]
