"""Mirrors keep the user's order, but hosts that failed twice come last for an hour."""

from __future__ import annotations

from reprokit.supply.mirrors.rest import Rest
from reprokit.supply.store import Store

DEAD, OTHER = "http://dead.test/b", "http://new.test/b"


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


def failed(rest: Rest, times: int = 2, url: str = DEAD) -> Rest:
    for _ in range(times):
        rest.report(url, "stalled")
    return rest


def test_hosts_that_failed_twice_go_last_and_equals_keep_their_order(store: Store):
    rest = Rest(store)
    for number, count in enumerate((0, 2, 1, 3, 0)):
        failed(rest, count, f"http://{number}.test/")
    failed(rest, url="file:///srv/a")  # on this machine: stays where it is
    urls = [f"http://{number}.test/" for number in range(5)]
    ordered = rest.order(["file:///srv/a", *urls, "file:///srv/a"])
    assert ordered == ["file:///srv/a", *(urls[number] for number in (0, 2, 4, 1, 3))]


def test_the_resting_get_another_chance_after_an_hour(store: Store):
    clock = Clock()
    rest = failed(Rest(store, clock), 9)
    clock.now += 3599
    assert rest.resting(DEAD)
    clock.now += 2
    assert not rest.resting(DEAD)
    assert not failed(rest, 1).resting(DEAD)
    assert failed(rest, 1).resting(DEAD)


def test_failures_outlive_the_process(store: Store):
    clock = Clock()
    failed(Rest(store, clock), url="https://me:secret@Dead.test/a")
    again = Rest(store, clock)
    assert not again.resting("http://dead.test:80/b")  # another port is another server
    assert again.order([DEAD, OTHER]) == [OTHER, DEAD]
    kept = "".join(path.name + path.read_text() for path in (store.root / "index" / "mirrors").iterdir())
    assert "secret" not in kept


def test_a_success_clears_the_failures(store: Store):
    rest = failed(Rest(store))
    rest.report(DEAD, None)
    assert not rest.resting(DEAD) and not Rest(store).resting(DEAD)


def test_small_files_do_not_write_each_time(store: Store, monkeypatch):
    writes: list[str] = []
    monkeypatch.setattr(store, "remember", lambda kind, key, value: writes.append(key))
    rest = Rest(store)
    for number in range(1000):
        rest.report(f"http://m.test/{number}", None)
    for number in range(1000):
        rest.report(f"http://m.test/{number}", "stalled")
    assert writes == ["m.test"] * 2


def test_an_index_of_another_version_is_as_none(store: Store):
    for kept in ({"speed": 3}, {"failures": 9, "failed_at": 1e12}, [1], "x"):
        store.remember("mirrors", "m.test", kept)
        assert not Rest(store).resting("http://m.test/a")
