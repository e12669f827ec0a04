"""Mirrors keep the user's order, but hosts that failed twice come last for an hour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_host_that_failed_twice_goes_last(store: Store):
    assert failed(Rest(store)).order([DEAD, OTHER]) == [OTHER, DEAD]


def test_one_failure_is_an_accident(store: Store):
    assert failed(Rest(store), 1).order([DEAD, OTHER]) == [DEAD, OTHER]


def test_the_resting_get_another_chance_after_an_hour(store: Store):
    clock = Clock()
    rest = failed(Rest(store, clock), 9)
    clock.now += 3599
    assert rest.resting(DEAD)
    clock.now += 2
    assert not rest.resting(DEAD)
    assert not failed(rest, 1).resting(DEAD)
    assert failed(rest, 1).resting(DEAD)


def test_what_is_on_this_machine_stays_where_it_is(store: Store):
    rest = failed(failed(Rest(store), url="file:///srv/a"))
    assert rest.order(["file:///srv/a", DEAD, "file:///srv/a"]) == ["file:///srv/a", DEAD]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
@pytest.mark.slow
def test_nothing_is_lost_and_equals_keep_their_order(tmp_path_factory, failures: list[int]):
    rest = Rest(Store(tmp_path_factory.mktemp("store")))
    urls = [f"http://{number}.test/" for number in range(len(failures))]
    for url, count in zip(urls, failures, strict=True):
        failed(rest, count, url)
    assert rest.order(urls) == sorted(urls, key=lambda url: failures[urls.index(url)] >= 2)


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
