"""Files of locks brought into the store, several at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reprokit.host.disk import require_space
from reprokit.supply.fetch import partial as partials
from reprokit.supply.fetch.download import Bring, Unobtainable
from reprokit.supply.fetch.failure import FetchFailed, not_here
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.places import Places
from reprokit.supply.fetch.progress import Progress, Tally
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.fetch.stop import Stop, Stopped
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, unwritable

_TICK_S = 0.2
_ELSEWHERE_S = 0.1
_ENDING_S = 5.0


@dataclass(frozen=True)
class Fetched:
    """`files` and `bytes` came from outside, bytes that came in vain included; the others were in the store."""

    files: int
    bytes: int
    stored_files: int
    stored_bytes: int


def fetch_all(
    wants: Iterable[LockedInput],
    store: Store,
    places: Places,
    watch: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
    parallel: int = 6,
    offline: bool = False,
    settings: Settings | Callable[[], Settings] | None = None,
) -> Fetched:
    """Have every file in the store. `watch` and `say` are called in the caller's thread.

    Reading the host's settings takes time: a function that gives them is called only where something is missing.

    What can be had is had before an error is raised: FetchFailed (a SourceError) naming what no address gave, or what
    is not here while `offline`; EngineError where the store's file system has no room. Partial files are kept, also on
    Ctrl-C, and the next call goes on with them.
    """
    unique = list({want.sha256: want for want in wants}.values())
    with store.in_use(say):
        missing = [want for want in unique if not is_here(want, store)]
        if missing and offline:
            raise not_here(missing)
        if not missing:
            return Fetched(0, 0, len(unique), sum(want.size for want in unique))
        check_space(missing, store)
        chosen = settings() if callable(settings) else settings or Settings()
        pool = _Pool(missing, store, places, say, parallel, chosen)
        pool.run(watch)
    asked = {want.sha256 for want in missing} - {want.sha256 for want in pool.found}
    here = [want.size for want in unique if want.sha256 not in asked]
    return Fetched(len(asked), pool.tally.received, len(here), sum(here))


def is_here(want: LockedInput, store: Store) -> bool:
    """Whether the store has a file of this name and size; `reprokit store verify` reads the bytes."""
    try:
        return store.path(want.sha256).stat().st_size == want.size
    except FileNotFoundError:
        return False


def check_space(missing: Sequence[LockedInput], store: Store) -> None:
    """Raises EngineError where what is still to come does not fit."""
    begun = {path.name: path.stat().st_size for path in partials.folder(store).glob("?" * 64)}
    needed = sum(max(0, want.size - begun.get(want.sha256, 0)) for want in missing)
    require_space(needed, store.root)


class _Pool:
    """One run. The workers are daemons: a partial file bears the end of its process at any moment."""

    def __init__(
        self,
        wants: Sequence[LockedInput],
        store: Store,
        places: Places,
        say: Callable[[str], None],
        parallel: int,
        settings: Settings,
    ) -> None:
        self.store, self.places, self.say = store, places, say
        self.tally = Tally(len(wants), sum(want.size for want in wants))
        self.found: list[LockedInput] = []
        self._failures: list[Unobtainable] = []
        self._errors: list[Exception] = []
        self._stop = Stop()
        self._client = Client(settings, parallel)
        # The biggest first, so that none is left alone at the end.
        self._queue = deque(sorted(wants, key=lambda want: -want.size))
        self._elsewhere: deque[LockedInput] = deque()
        self._told: set[str] = set()
        self._lock = threading.Lock()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None: a worker has ended
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(parallel, len(wants)))]

    def run(self, watch: Callable[[Progress], None]) -> None:
        with self._client:
            try:
                for thread in self._threads:
                    thread.start()
                working = len(self._threads)
                while working and not self._errors:
                    working -= self._pass_on()
                    watch(self.tally.progress(time.monotonic()))
            finally:
                self._stop.call()
                deadline = time.monotonic() + _ENDING_S
                for thread in self._threads:
                    thread.join(max(0.0, deadline - time.monotonic()))
        if self._errors:
            raise self._errors[0]
        if self._failures:
            raise FetchFailed(self._failures)

    def _pass_on(self) -> int:
        """Say what the workers say for a while; returns how many of them have ended."""
        ended, wait = 0, _TICK_S
        while True:
            try:
                line = self._lines.get(timeout=wait)
            except queue.Empty:
                return ended
            if line is None:
                ended += 1
            else:
                self.say(line)
            wait = 0

    def _work(self) -> None:
        try:
            while (want := self._next()) is not None:
                self._one(want)
        except Stopped:
            pass
        except OSError as error:
            self._errors.append(unwritable(error, self.store))
        except Exception as error:
            self._errors.append(error)
        finally:
            self._lines.put(None)

    def _next(self) -> LockedInput | None:
        """The next file; those that another process has come last, and not without a pause."""
        self._stop.check()
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            if not self._elsewhere:
                return None
            want = self._elsewhere.popleft()
        self._stop.wait(_ELSEWHERE_S)
        return want

    def _one(self, want: LockedInput) -> None:
        partial = Partial.claim(self.store, want.sha256)
        if partial is None:
            with self._lock:
                self._elsewhere.append(want)
                told = want.sha256 in self._told
                self._told.add(want.sha256)
            if not told:
                self._lines.put(f"{want.name}: another process fetches it; waiting for that")
            return
        with partial:
            if is_here(want, self.store):
                partial.discard()
                self.found.append(want)
                self.tally.done(want.sha256, want.size)
            else:
                self._fetch(want, partial)

    def _fetch(self, want: LockedInput, partial: Partial) -> None:
        self.tally.at(want.sha256, want.name, 0)
        partial.load(want.size, self._stop.check)
        self.tally.at(want.sha256, want.name, partial.offset)
        try:
            Bring(want, partial, self.places, self._client, self._stop, self.tally, self._lines.put).run()
        except Unobtainable as error:
            self.tally.left(want.sha256)
            if partial.offset == 0:
                partial.discard()
            self._failures.append(error)
        else:
            partial.publish(self.store)
            self.tally.done(want.sha256, want.size)
