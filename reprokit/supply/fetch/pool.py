"""Fetch files of locks into the store, several at a time."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.config import mirror_hint
from reprokit.display import notify
from reprokit.errors import SourceError, UsageError
from reprokit.host.disk import require_space
from reprokit.supply.fetch.download import (
    Addresses,
    Download,
    Partial,
    Stop,
    Stopped,
    Unobtainable,
    partial_folder,
    short_name,
)
from reprokit.supply.fetch.http import Client, Refusal
from reprokit.supply.fetch.progress import Progress, Tally
from reprokit.supply.hosts import listed
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, sha256_of, unwritable

_TICK_S = 0.2
_ELSEWHERE_S = 0.1
_ENDING_S = 5.0
_MOST_NAMED = 10
_COPY_BLOCK = 1 << 20


class FetchFailed(SourceError):
    """No address gave the files of `failures`, sorted by name."""

    def __init__(self, failures: Sequence[Unobtainable]) -> None:
        self.failures = tuple(sorted(failures, key=lambda failure: failure.locked.name))
        super().__init__(*explained(self.failures))
        self.cause_known = all(failure.unreachable for failure in failures)


@dataclass(frozen=True)
class Fetched:
    """`files` and `bytes` were downloaded, discarded bytes included; the others were in the store."""

    files: int
    bytes: int
    stored_files: int
    stored_bytes: int


def fetch_all(
    inputs: Iterable[LockedInput],
    addresses: Addresses,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    offline: bool = False,
) -> Fetched:
    """Fetch every file into the store. `on_progress` is called in the caller's thread.

    Raises FetchFailed (a SourceError) naming the files that no address gave, SourceError for files missing while
    `offline`, EngineError if the disk is too small. All other files are fetched before FetchFailed is raised, unless no
    host of a kind of input can be reached. Partial files are kept, also on Ctrl-C, and the next call continues them.
    """
    store = addresses.store
    unique = list({locked.key: locked for locked in inputs}.values())
    with store.in_use():
        missing = [locked for locked in unique if not locked.stored(store)]
        if missing and offline:
            raise not_stored(missing)
        if not missing:
            return Fetched(0, 0, len(unique), sum(locked.size for locked in unique))
        check_space(missing, store)
        pool = _Pool(missing, addresses)
        pool.run(on_progress)
    downloaded = {locked.key for locked in missing} - {locked.key for locked in pool.already_stored}
    stored = [locked.size for locked in unique if locked.key not in downloaded]
    return Fetched(len(downloaded), pool.tally.received, len(stored), sum(stored))


def check_space(missing: Sequence[LockedInput], store: Store) -> None:
    """Raises EngineError if the missing bytes do not fit on the disk."""
    require_space(_bytes_left(missing, store), store.root)


def _bytes_left(missing: Sequence[LockedInput], store: Store) -> int:
    begun = {path.name: path.stat().st_size for path in partial_folder(store).glob("?" * 64)}
    return sum(max(0, locked.size - begun.get(locked.key, 0)) for locked in missing)


class _Pool:
    """One run. The workers are daemon threads: partial files survive a kill at any point."""

    def __init__(self, inputs: Sequence[LockedInput], addresses: Addresses) -> None:
        self.store, self.addresses = addresses.store, addresses
        self._inputs = inputs
        parallel = addresses.settings.parallel
        self.tally = Tally(len(inputs), sum(locked.size for locked in inputs))
        self.already_stored: list[LockedInput] = []  # by another process
        self._failures: list[Unobtainable] = []
        self._errors: list[Exception] = []
        self._stop = Stop()
        self._client = Client(addresses.settings, parallel)
        # The largest first, so that no large one runs alone at the end.
        self._queue = deque(sorted(inputs, key=lambda locked: -locked.size))
        self._elsewhere: deque[LockedInput] = deque()
        self._reported: set[str] = set()
        self._open = {locked.key: locked for locked in inputs}  # neither downloaded nor failed
        self._kinds: set[str] = set()  # kinds with a downloaded file
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(parallel, len(inputs)))]

    def run(self, on_progress: Callable[[Progress], None]) -> None:
        with self._client:
            try:
                for thread in self._threads:
                    thread.start()
                for thread in self._threads:
                    while thread.is_alive() and not self._errors:
                        thread.join(_TICK_S)
                        on_progress(self.tally.progress(time.monotonic()))
            finally:
                self._stop.call()
                deadline = time.monotonic() + _ENDING_S
                for thread in self._threads:
                    thread.join(max(0.0, deadline - time.monotonic()))
        if self._errors:
            error = self._errors[0]
            if not isinstance(error, OSError):
                raise error
            missing = [locked for locked in self._inputs if not locked.stored(self.store)]
            raise unwritable(error, self.store, _bytes_left(missing, self.store)) from None
        if self._failures:
            raise FetchFailed(self._failures)

    def _work(self) -> None:
        try:
            while (locked := self._next()) is not None:
                self._claim(locked)
        except Stopped:
            pass
        except Exception as error:
            self._errors.append(error)

    def _next(self) -> LockedInput | None:
        """The next file. Those that another process is fetching come last, after a pause."""
        self._stop.check()
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            if not self._elsewhere:
                return None
            locked = self._elsewhere.popleft()
        self._stop.wait(_ELSEWHERE_S)
        return locked

    def _claim(self, locked: LockedInput) -> None:
        partial = Partial.claim(self.store, locked)
        if partial is None:
            with self._lock:
                self._elsewhere.append(locked)
                reported = locked.key in self._reported
                self._reported.add(locked.key)
            if not reported:
                notify(f"{locked.name}: waiting for another process that fetches it")
            return
        with partial:
            if locked.stored(self.store):
                partial.discard()
                self.already_stored.append(locked)
                self.tally.done(locked.key, locked.size)
            else:
                self._fetch(locked, partial)

    def _fetch(self, locked: LockedInput, partial: Partial) -> None:
        self.tally.at(locked.key, locked.name, 0)
        partial.load(locked.size, self._stop.check)
        self.tally.at(locked.key, locked.name, partial.offset)
        download = Download(locked, partial, self.addresses, self._client, self._stop, self.tally)
        try:
            download.run()
        except Unobtainable as error:
            self.tally.left(locked.key)
            if partial.offset == 0:
                partial.discard()
            self._failures.append(error)
            self._closed(locked)
            if error.unreachable and not self._reachable(locked.kind):
                self._stop.call()
        else:
            self._kinds.add(locked.kind)
            self._closed(locked)
            self._report_lost(download.lost)
            partial.publish(self.store)
            if not locked.sha256:
                locked.learned(self.store, partial.sha256)
            self.tally.done(locked.key, locked.size)

    def _reachable(self, kind: str) -> bool:
        """Whether a file of this kind was downloaded, or has an address whose host may still answer."""
        if kind in self._kinds:
            return True
        with self._lock:
            others = [locked for locked in self._open.values() if locked.kind == kind]
        lost = self.addresses.settings.lost
        return any(not lost.why(url) for locked in others for url in self.addresses.urls(locked))

    def _closed(self, locked: LockedInput) -> None:
        with self._lock:
            self._open.pop(locked.key)

    def _report_lost(self, lost: Mapping[str, str]) -> None:
        for host, why in lost.items():
            with self._lock:
                reported = host in self._reported
                self._reported.add(host)
            if not reported:
                notify(f"{host} cannot be reached ({why}); continuing with other mirrors")


def explained(failures: Sequence[Unobtainable]) -> tuple[str, str, str]:
    """Message, address and hint."""
    unreachable = [failure for failure in failures if failure.unreachable]
    failures = [failure for failure in failures if not failure.unreachable]
    if not failures:
        return _unreachable(unreachable)
    changed = any(failure.changed for failure in failures)
    hint = (
        "the new file was not used; to accept it: `reprokit lock --update`"
        if changed
        else "partial files are kept: run it again, or add files that you have with --from DIR"
    )
    if len(failures) == 1 and not unreachable:
        (failure,) = failures
        url, refusal = _cause(failure)
        return f"{_summary(failure, refusal)}{_others(failure, url)}", url, hint
    lines = [
        f"\n  {_summary(f, _cause(f)[1])} ({_cause(f)[0]}){_others(f, _cause(f)[0])}" for f in failures[:_MOST_NAMED]
    ]
    more = f"\n  and {len(failures) - _MOST_NAMED} more" if len(failures) > _MOST_NAMED else ""
    if unreachable:
        more += f"\n  {_unreachable(unreachable)[0]}"
    count = len(failures) + len(unreachable)
    return f"{count} files could not be fetched:{''.join(lines)}{more}", "", hint


def _unreachable(failures: Sequence[Unobtainable]) -> tuple[str, str, str]:
    """Name each host once, however many files there are."""
    kind_names = sorted({failure.locked.kind for failure in failures})
    hosts = {short_name(url): refusal.why for failure in failures for url, refusal in failure.refusals.items()}
    return f"no host of {' and '.join(kind_names)} can be reached: {listed(hosts)}", "", mirror_hint(*kind_names)


def not_stored(inputs: Sequence[LockedInput]) -> SourceError:
    """The error of an offline run for files that are not in the store."""
    names = ", ".join(locked.name for locked in inputs[:_MOST_NAMED])
    more = f" and {len(inputs) - _MOST_NAMED} more" if len(inputs) > _MOST_NAMED else ""
    subject = "a file is" if len(inputs) == 1 else f"{len(inputs)} files are"
    return SourceError(f"{subject} not in the store: {names}{more}", hint="`reprokit fetch` downloads them")


def _cause(failure: Unobtainable) -> tuple[str, Refusal]:
    """The most useful error: of an address with other bytes, else of the first one."""
    ranked = sorted(failure.refusals.items(), key=lambda item: not item[1].other_bytes)
    return ranked[0] if ranked else ("", Refusal("no address is known"))


def _others(failure: Unobtainable, url: str) -> str:
    """The answers of the other addresses, one a line."""
    return "".join(f"\n    {other}: {r.why}" for other, r in failure.refusals.items() if other != url)


def _summary(failure: Unobtainable, refusal: Refusal) -> str:
    return f"{failure.locked.name}{' has changed upstream' if refusal.other_bytes else ''}: {refusal.why}"


def import_files(folder: Path, inputs: Iterable[LockedInput], store: Store) -> int:
    """Copy missing files that `folder` or its subfolders have, by size and sha256; returns how many.

    Copied and never linked: a later change of the user's file would change the store's. Raises UsageError for a missing
    folder, EngineError if the disk is too small.
    """
    if not folder.is_dir():
        raise UsageError("no such folder", str(folder))
    missing: dict[int, dict[str, LockedInput]] = defaultdict(dict)
    for locked in inputs:
        if locked.sha256 and not locked.stored(store):
            missing[locked.size][locked.sha256] = locked
    matches: dict[str, tuple[LockedInput, Path]] = {}
    for path, size in _files(folder):
        if missing.get(size):
            sha256 = sha256_of(path)
            if sha256 in missing[size]:
                matches[sha256] = (missing[size].pop(sha256), path)
    copied = 0
    with store.in_use():
        check_space([locked for locked, _ in matches.values()], store)
        for locked, path in matches.values():
            try:
                copied += _import_file(locked, path, store)
            except OSError as error:
                raise unwritable(error, store) from None
            notify(f"{locked.name}: copied from {path}")
    return copied


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every readable file with its size in bytes, by name."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path, path.stat().st_size


def _import_file(locked: LockedInput, path: Path, store: Store) -> bool:
    partial = Partial.claim(store, locked)
    if partial is None:  # another process fetches it
        return False
    with partial, path.open("rb") as file:
        partial.restart()
        while block := file.read(_COPY_BLOCK):
            partial.write(block)
        if partial.differs(locked):  # it was changed just now
            partial.discard()
            return False
        partial.publish(store)
    return True
