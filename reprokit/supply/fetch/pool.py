"""Files of locks brought into the store, several at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.config import mirror_hint
from reprokit.display import notify
from reprokit.errors import SourceError
from reprokit.host.disk import require_space
from reprokit.supply.fetch import partial as partials
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.download import Download, Unobtainable, place
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.lost import listed
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.places import Places
from reprokit.supply.fetch.progress import Progress, Tally
from reprokit.supply.fetch.stop import Stop, Stopped
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, unwritable

_TICK_S = 0.2
_ELSEWHERE_S = 0.1
_ENDING_S = 5.0
_MOST_NAMED = 10


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
    places: Places,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    offline: bool = False,
) -> Fetched:
    """Fetch every file into the store. `on_progress` is called in the caller's thread.

    Raises FetchFailed (a SourceError) naming the files that no address gave, SourceError for files missing while
    `offline`, EngineError if the disk is too small. All other files are fetched before FetchFailed is raised, unless no
    host of a kind of input can be reached. Partial files are kept, also on Ctrl-C, and the next call continues them.
    """
    store = places.store
    unique = list({locked.key: locked for locked in inputs}.values())
    with store.in_use():
        missing = [locked for locked in unique if not locked.stored(store)]
        if missing and offline:
            raise not_stored(missing)
        if not missing:
            return Fetched(0, 0, len(unique), sum(locked.size for locked in unique))
        check_space(missing, store)
        pool = _Pool(missing, places)
        pool.run(on_progress)
    asked = {locked.key for locked in missing} - {locked.key for locked in pool.found}
    stored = [locked.size for locked in unique if locked.key not in asked]
    return Fetched(len(asked), pool.tally.received, len(stored), sum(stored))


def check_space(missing: Sequence[LockedInput], store: Store) -> None:
    """Raises EngineError if the missing bytes do not fit on the disk."""
    require_space(_bytes_left(missing, store), store.root)


def _bytes_left(missing: Sequence[LockedInput], store: Store) -> int:
    begun = {path.name: path.stat().st_size for path in partials.folder(store).glob("?" * 64)}
    return sum(max(0, locked.size - begun.get(locked.key, 0)) for locked in missing)


class _Pool:
    """One run. The workers are daemon threads: partial files survive a kill at any point."""

    def __init__(self, inputs: Sequence[LockedInput], places: Places) -> None:
        self.store, self.places = places.store, places
        self._inputs = inputs
        parallel = places.settings.parallel
        self.tally = Tally(len(inputs), sum(locked.size for locked in inputs))
        self.found: list[LockedInput] = []
        self._failures: list[Unobtainable] = []
        self._errors: list[Exception] = []
        self._stop = Stop()
        self._client = Client(places.settings, parallel)
        # The largest first, so that no large one runs alone at the end.
        self._queue = deque(sorted(inputs, key=lambda locked: -locked.size))
        self._elsewhere: deque[LockedInput] = deque()
        self._reported: set[str] = set()
        self._open = {locked.key: locked for locked in inputs}  # not downloaded, and no failure
        self._kinds: set[str] = set()  # of which a file was downloaded
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
                self._one(locked)
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

    def _one(self, locked: LockedInput) -> None:
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
                self.found.append(locked)
                self.tally.done(locked.key, locked.size)
            else:
                self._fetch(locked, partial)

    def _fetch(self, locked: LockedInput, partial: Partial) -> None:
        self.tally.at(locked.key, locked.name, 0)
        partial.load(locked.size, self._stop.check)
        self.tally.at(locked.key, locked.name, partial.offset)
        download = Download(locked, partial, self.places, self._client, self._stop, self.tally)
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
        lost = self.places.settings.lost
        return any(not lost.why(url) for locked in others for url in self.places.urls(locked))

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
    kinds = sorted({failure.locked.kind for failure in failures})
    hosts = {place(url): refusal.why for failure in failures for url, refusal in failure.refusals.items()}
    return f"no host of {' and '.join(kinds)} can be reached: {listed(hosts)}", "", mirror_hint(*kinds)


def not_stored(inputs: Sequence[LockedInput]) -> SourceError:
    """The error of an offline run for files that are not in the store."""
    names = ", ".join(locked.name for locked in inputs[:_MOST_NAMED])
    more = f" and {len(inputs) - _MOST_NAMED} more" if len(inputs) > _MOST_NAMED else ""
    what = "a file is" if len(inputs) == 1 else f"{len(inputs)} files are"
    return SourceError(f"{what} not in the store: {names}{more}", hint="`reprokit fetch` downloads them")


def _cause(failure: Unobtainable) -> tuple[str, Refusal]:
    """The most useful error: of an address with other bytes, else of the first one."""
    ranked = sorted(failure.refusals.items(), key=lambda item: not item[1].other_bytes)
    return ranked[0] if ranked else ("", Refusal("no address is known"))


def _others(failure: Unobtainable, url: str) -> str:
    """The answers of the other addresses, one a line."""
    return "".join(f"\n    {other}: {r.why}" for other, r in failure.refusals.items() if other != url)


def _summary(failure: Unobtainable, refusal: Refusal) -> str:
    return f"{failure.locked.name}{' has changed upstream' if refusal.other_bytes else ''}: {refusal.why}"
