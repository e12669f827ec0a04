"""What was measured decides the order: the dead last, the much slower before them, all else as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reprokit.supply.mirrors.measured import Measure, Measures, ordered
from reprokit.supply.store import Store

MB = 1 << 20
FAST = Measure(bytes=40 * MB, seconds=10)
SLOW = Measure(bytes=5 * MB, seconds=10)
CRAWLING = Measure(bytes=2 * MB, seconds=600)
DEAD = Measure(failures=2, failed_at=900)
NOW = 1000.0

MEASURES = st.builds(
    Measure,
    bytes=st.integers(0, 1 << 30),
    seconds=st.floats(0, 1000),
    failures=st.integers(0, 4),
    failed_at=st.floats(0, NOW),
)


def order(**measures: Measure) -> list[str]:
    urls = {f"http://{name}.test/x": measure for name, measure in measures.items()}
    return [url.split("/")[2].removesuffix(".test") for url in ordered(urls, urls.__getitem__, NOW)]


def test_dead_and_much_slower_hosts_go_last():
    assert order(dead=DEAD, slow=SLOW, fast=FAST, new=Measure()) == ["fast", "new", "slow", "dead"]


def test_twice_as_fast_is_no_reason_to_leave_the_users_order():
    assert order(first=Measure(bytes=20 * MB, seconds=10), fast=FAST) == ["first", "fast"]


def test_one_failure_is_an_accident():
    assert order(first=Measure(failures=1, failed_at=NOW), fast=FAST) == ["first", "fast"]


def test_a_crawling_host_makes_room_for_one_that_nobody_has_measured():
    assert order(crawling=CRAWLING, new=Measure()) == ["new", "crawling"]


def test_the_dead_get_another_chance_after_an_hour():
    assert order(dead=Measure(failures=9, failed_at=NOW - 3601), fast=FAST) == ["dead", "fast"]


def test_a_few_bytes_say_nothing_about_a_rate():
    assert order(small=Measure(bytes=1000, seconds=5), fast=FAST) == ["small", "fast"]


def test_what_is_on_this_machine_stays_where_it_is():
    urls = ["file:///srv/a", "http://dead.test/a"]
    assert ordered([*urls, urls[0]], lambda url: DEAD, NOW) == urls


@given(st.lists(MEASURES, min_size=1, max_size=8))
def test_nothing_is_lost_and_equals_keep_their_order(measures: list[Measure]):
    urls = {f"http://{number}.test/": measure for number, measure in enumerate(measures)}
    found = ordered(urls, urls.__getitem__, NOW)
    assert sorted(found) == sorted(urls)
    same = {url: Measure() for url in urls}
    assert ordered(urls, same.__getitem__, NOW) == list(urls)
    deaths = [urls[url].dead(NOW) for url in found]
    assert deaths == sorted(deaths)


def test_measures_outlive_the_process_but_not_a_day(store: Store):
    now = 1e9
    first = Measures(store, lambda: now)
    for _ in range(2):
        first.report("https://me:secret@Dead.test/a", 0, 1, "stalled")
    again = Measures(store, lambda: now + 60)
    assert again.of("http://dead.test:80/b") == Measure()  # another port is another server
    assert again.of("http://dead.test/b").dead(now + 60)
    assert again.order(["http://dead.test/b", "http://new.test/b"])[0] == "http://new.test/b"
    assert Measures(store, lambda: now + 86401).of("http://dead.test/b") == Measure()
    kept = "".join(path.name + path.read_text() for path in (store.root / "index" / "mirrors").iterdir())
    assert "secret" not in kept


def test_a_success_clears_the_failures(store: Store):
    measures = Measures(store, lambda: NOW)
    for error in ("stalled", "stalled", None):
        measures.report("http://m.test/a", MB, 1, error)
    assert not measures.of("http://m.test/a").dead(NOW)
    assert Measures(store, lambda: NOW).of("http://m.test/a").failures == 0


def test_what_is_long_ago_counts_less(store: Store):
    measure = Measure()
    for _ in range(100):
        measure = measure.after(10 * MB, 1, None, NOW)
    for _ in range(500):
        measure = measure.after(MB // 10, 1, None, NOW)
    assert measure.rate is not None and measure.rate < MB / 5


def test_small_files_do_not_write_each_time(store: Store, monkeypatch):
    writes: list[str] = []
    monkeypatch.setattr(store, "remember", lambda kind, key, value: writes.append(key))
    measures = Measures(store, lambda: NOW)
    for number in range(1000):
        measures.report(f"http://m.test/{number}", 1000, 0.01, None)
    assert writes == ["m.test"]


def test_an_index_of_another_version_is_as_none(store: Store):
    store.remember("mirrors", "m.test", {"speed": 3})
    assert Measures(store).of("http://m.test/a") == Measure()
