"""Downloads into a store."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path

from reprokit.config import Configuration, MirrorEntry
from reprokit.display import reporting
from reprokit.supply.fetch.download import OwnAddresses
from reprokit.supply.fetch.http import Settings
from reprokit.supply.fetch.pool import Fetched, fetch_all
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own

HOSTS = ("127.0.0.1", "127.0.0.2", "localhost")
LOCAL = Own.of(HOSTS)
# Little time between attempts, and much for each: a server of a test on a busy machine must not seem to stall.
QUICK = Settings(
    stall_s=60, slow_window_s=60, slow_rate=1000, backoff_s=0.01, longest_wait_s=0.05, attempts=3, own=LOCAL
)


def local_mirrors(store: Store, *mirrors: MirrorEntry, pip: PipSettings = PipSettings()) -> Mirrors:  # noqa: B008
    """Mirrors that may use servers on loopback. They do not start the host's pip and apt, which takes half a second."""
    return Mirrors(store, Configuration(mirrors, hosts=HOSTS), pip=pip, apt=AptSettings())


def content(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def want(data: bytes, *urls: str, name: str = "file.bin") -> LockedInput:
    return LockedInput("files", name, hashlib.sha256(data).hexdigest(), len(data), {}, urls)


class Here(OwnAddresses):
    """The addresses that an entry names, and the reports on them."""

    def __init__(self, store: Store, settings: Settings = QUICK) -> None:
        super().__init__(store, settings)
        self.reports: list[tuple[str, str | None]] = []

    def report(self, url: str, error: str | None) -> None:
        self.reports.append((url, error))


class Fetch:
    """`fetch(want, ...)` into a store; `lines` are the reported lines."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.places = Here(store)
        self.lines: list[str] = []

    def __call__(self, *wants: LockedInput, settings: Settings = QUICK, offline: bool = False) -> Fetched:
        self.places.settings = replace(settings, lost=self.store.lost)
        with reporting(self.lines.append):
            return fetch_all(wants, self.places, offline=offline)

    def partial(self, data: bytes, of: bytes) -> Path:
        """A partial file of `of`, left by an earlier process."""
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
