"""Mirrors keep the user's order, but hosts that failed twice come last for an hour."""

from __future__ import annotations

from reprokit.supply.hosts import FailingHosts
from reprokit.supply.store import Store

DEAD, OTHER = "http://dead.test/b", "http://new.test/b"


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


def failed(hosts: FailingHosts, times: int = 2, url: str = DEAD) -> FailingHosts:
    for _ in range(times):
        hosts.report(url, "stalled")
    return hosts


def test_hosts_that_failed_twice_go_last_and_equals_keep_their_order(store: Store):
    hosts = FailingHosts(store)
    for number, count in enumerate((0, 2, 1, 3, 0)):
        failed(hosts, count, f"http://{number}.test/")
    failed(hosts, url="file:///srv/a")  # on this machine: stays where it is
    urls = [f"http://{number}.test/" for number in range(5)]
    ordered = hosts.order(["file:///srv/a", *urls, "file:///srv/a"])
    assert ordered == ["file:///srv/a", *(urls[number] for number in (0, 2, 4, 1, 3))]


def test_hosts_in_back_off_get_another_chance_after_an_hour(store: Store):
    clock = Clock()
    hosts = failed(FailingHosts(store, clock), 9)
    clock.now += 3599
    assert hosts.in_back_off(DEAD)
    clock.now += 2
    assert not hosts.in_back_off(DEAD)
    assert not failed(hosts, 1).in_back_off(DEAD)
    assert failed(hosts, 1).in_back_off(DEAD)


def test_failures_outlive_the_process(store: Store):
    clock = Clock()
    failed(FailingHosts(store, clock), url="https://me:secret@Dead.test/a")
    again = FailingHosts(store, clock)
    assert not again.in_back_off("http://dead.test:80/b")  # another port is another server
    assert again.order([DEAD, OTHER]) == [OTHER, DEAD]
    kept = "".join(path.name + path.read_text() for path in (store.root / "index" / "mirrors").iterdir())
    assert "secret" not in kept


def test_a_success_clears_the_failures(store: Store):
    hosts = failed(FailingHosts(store))
    hosts.report(DEAD, None)
    assert not hosts.in_back_off(DEAD) and not FailingHosts(store).in_back_off(DEAD)


def test_small_files_do_not_write_each_time(store: Store, monkeypatch):
    writes: list[str] = []
    monkeypatch.setattr(store, "remember", lambda kind, key, value: writes.append(key))
    hosts = FailingHosts(store)
    for number in range(1000):
        hosts.report(f"http://m.test/{number}", None)
    for number in range(1000):
        hosts.report(f"http://m.test/{number}", "stalled")
    assert writes == ["m.test"] * 2


def test_an_index_of_another_version_is_as_none(store: Store):
    for kept in ({"speed": 3}, {"failures": 9, "failed_at": 1e12}, [1], "x"):
        store.remember("mirrors", "m.test", kept)
        assert not FailingHosts(store).in_back_off("http://m.test/a")
