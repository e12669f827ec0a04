"""Downloads into a store, with short time limits."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

from reprokit.supply.fetch.pool import Fetched, fetch_all
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own

# Impatient, so that tests are quick; what waits longer waits for an answer that does not come.
HOSTS = ("127.0.0.1", "localhost")
LOCAL = Own.of(HOSTS)
QUICK = Settings(
    stall_s=0.5, slow_window_s=0.5, slow_rate=1000, backoff_s=0.01, longest_wait_s=0.05, attempts=3, own=LOCAL
)


def content(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def want(data: bytes, *urls: str, name: str = "file.bin") -> LockedInput:
    return LockedInput("files", name, hashlib.sha256(data).hexdigest(), len(data), {}, urls)


class Here:
    """The addresses that the wants name themselves, and what was reported of them."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, str | None]] = []

    def urls(self, want: LockedInput) -> Iterator[str]:
        return iter(want.urls)

    def report(self, url: str, error: str | None) -> None:
        self.reports.append((url, error))

    def silent(self, want: LockedInput) -> dict[str, str]:
        return {}


class Fetch:
    """`fetch(want, ...)` into a store of its own; `lines` is what was said."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.places = Here()
        self.lines: list[str] = []

    def __call__(self, *wants: LockedInput, settings: Settings = QUICK, offline: bool = False) -> Fetched:
        return fetch_all(wants, self.store, self.places, say=self.lines.append, settings=settings, offline=offline)

    def partial(self, data: bytes, of: bytes) -> Path:
        """What an earlier process left of the file `of`."""
        path = self.store.root / "partial" / hashlib.sha256(of).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def has(self, data: bytes) -> bool:
        path = self.store.path(hashlib.sha256(data).hexdigest())
        return path.exists() and path.read_bytes() == data

    def left_over(self) -> list[str]:
        folder = self.store.root / "partial"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
