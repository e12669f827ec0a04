"""The interface between downloads and mirrors."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from reprokit.display import notify
from reprokit.errors import SourceError
from reprokit.filelocks import try_acquire
from reprokit.formatting import size
from reprokit.redact import redact
from reprokit.supply.fetch.http import Answer, Body, Client, Refusal, Settings, judge, other_size, strong_etag
from reprokit.supply.fetch.progress import Tally
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, unwritable

_COPY_BLOCK = 1 << 20
_WRITEBACK = 1 << 23
# An attempt with fewer bytes counts as failed, so that a server cannot keep a download busy for ever.
_LEAST = 1 << 16
_LONGEST_BACKOFF_S = 30.0


class Addresses(Protocol):
    """Addresses of files for a store; several threads call these methods at once.

    `settings` are read only if a file is missing, because reading the host's takes time.
    """

    store: Store

    @property
    def settings(self) -> Settings: ...

    def urls(self, locked: LockedInput) -> Iterator[str]:
        """http://, https:// and file:// addresses in the order to try; each is looked up only when those before failed.

        They may hold user and password, which are sent to that host alone and never shown.
        """
        ...

    def report(self, url: str, error: str | None) -> None:
        """Record why an attempt failed, or with None that it worked."""
        ...

    def silent(self, locked: LockedInput) -> Mapping[str, str]:
        """Indexes that did not answer for the file, without credentials, and the error of each."""
        ...


@dataclass
class OwnAddresses:
    """The addresses that a file's entry names, and no others: these are `Addresses`."""

    store: Store
    settings: Settings

    def urls(self, locked: LockedInput) -> Iterator[str]:
        return iter(locked.urls)

    def report(self, url: str, error: str | None) -> None:
        pass

    def silent(self, locked: LockedInput) -> Mapping[str, str]:
        return {}


class Stopped(Exception):
    """The downloads were stopped."""


class Stop:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self._lock = threading.Lock()
        self._running: list[Callable[[], None]] = []

    def call(self) -> None:
        self._called.set()
        with self._lock:
            for end in self._running:
                end()

    def check(self) -> None:
        """Raises Stopped after `call`."""
        if self._called.is_set():
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Stopped on `call`."""
        self._called.wait(seconds)
        self.check()

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Inside this context `call` calls `end`, and the context then raises Stopped."""
        with self._lock:
            self._running.append(end)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._running.remove(end)
            self.check()


def partial_folder(store: Store) -> Path:
    """The folder of partial files, which are called by their keys."""
    return store.root / "partial"


class Partial:
    """Use as a context manager: it is locked inside. Its `offset` bytes are all hashed."""

    def __init__(self, file: FileIO, path: Path, md5: bool = False) -> None:
        self.path = path
        self.offset = 0
        self.url = ""
        self.etag: str | None = None
        self._file = file
        self._with_md5 = md5
        self._new_digests()
        self._flushed = 0

    def __enter__(self) -> Partial:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @classmethod
    def claim(cls, store: Store, locked: LockedInput) -> Partial | None:
        """The partial file of this content, continuing those of earlier processes; None while another process has it.

        Call `load` before `write`.
        """
        path = partial_folder(store) / locked.key
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
            if not try_acquire(file):
                file.close()
                return None
            with suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    return cls(file, path, md5=not locked.sha256)
            file.close()  # published or removed between open and lock

    def load(self, size: int, going_on: Callable[[], object]) -> None:
        """Hash the present bytes, calling `going_on` after each MiB. A file longer than `size` is discarded.

        A power cut may have spoilt unsynced blocks: then the final hash differs, and the file is fetched again.
        """
        if os.fstat(self._file.fileno()).st_size > size:
            self.restart()
        while block := self._file.read(_COPY_BLOCK):
            self._update(block)
            self.offset += len(block)
            going_on()
        self._flushed = self.offset

    def came_from(self, url: str, etag: str | None) -> None:
        """Record the source of the next bytes, for `If-Range` in this process's later requests."""
        self.url, self.etag = url, etag

    def write(self, block: bytes) -> None:
        """Append. Raises OSError if the disk is full; the bytes that fit are kept."""
        view = memoryview(block)
        while view:
            written = self._file.write(view) or 0
            self._update(view[:written])
            self.offset += written
            view = view[written:]
        if self.offset - self._flushed >= _WRITEBACK:
            # Starts the write-back early, so that the fsync at the end is short.
            os.posix_fadvise(self._file.fileno(), self._flushed, self.offset - self._flushed, os.POSIX_FADV_DONTNEED)
            self._flushed = self.offset

    def restart(self) -> None:
        """Discard all bytes."""
        self._file.seek(0)
        self._file.truncate()
        self._new_digests()
        self.offset = self._flushed = 0
        self.url, self.etag = "", None

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, 64 hex digits."""
        return self._digest.hexdigest()

    def differs(self, locked: LockedInput) -> str:
        """How the bytes so far differ from the locked checksum; empty if they match, or if there is none."""
        for name, expected, digest in (("sha256", locked.sha256, self._digest), ("md5", locked.md5, self._md5)):
            if expected and digest and digest.hexdigest() != expected:
                return f"expected {name} {expected}, got {digest.hexdigest()}"
        return ""

    def _new_digests(self) -> None:
        self._digest = hashlib.sha256()
        # md5 detects damage; from then on the sha256 of the same bytes is trusted.
        self._md5 = hashlib.md5(usedforsecurity=False) if self._with_md5 else None

    def _update(self, block: bytes | memoryview) -> None:
        self._digest.update(block)
        if self._md5:
            self._md5.update(block)

    def publish(self, store: Store) -> None:
        """Make it the store's file of its content."""
        os.fsync(self._file.fileno())
        os.fchmod(self._file.fileno(), 0o644)
        published = store.path(self.sha256)
        published.parent.mkdir(parents=True, exist_ok=True)
        self.path.replace(published)

    def discard(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)


class Slow(Refusal):
    """The address is slower than the minimum rate."""

    def __init__(self, rate: float, seconds: float) -> None:
        super().__init__(f"less than {rate:.0f} bytes/s for {seconds:.0f} s", again=True)


class Unobtainable(Exception):
    """No address gave the file. `refusals` has the last error of each address, without credentials."""

    def __init__(self, locked: LockedInput, refusals: dict[str, Refusal]) -> None:
        super().__init__(locked.name)
        self.locked = locked
        self.refusals = refusals

    @property
    def changed(self) -> bool:
        """Whether an address has other bytes under this name."""
        return any(refusal.other_bytes for refusal in self.refusals.values())

    @property
    def unreachable(self) -> bool:
        """Whether there are addresses, and no connection to any of them."""
        return bool(self.refusals) and all(refusal.unreachable for refusal in self.refusals.values())


@dataclass
class Download:
    """Completes one partial file. Reports each failed attempt of a host that could be reached.

    A file without any checksum is accepted as the first address serves it, whatever its size.
    """

    locked: LockedInput
    partial: Partial
    addresses: Addresses
    client: Client
    stop: Stop
    tally: Tally
    _refusals: dict[str, Refusal] = field(default_factory=dict)
    _earliest: dict[str, float] = field(default_factory=dict)
    _restarted: set[str] = field(default_factory=set)
    _furthest: int = 0
    _gained: int = 0
    _came: int = 0

    def run(self) -> None:
        """Raises Unobtainable, Stopped, and OSError if the partial file cannot be written."""
        self._furthest = self.partial.offset
        if self._size is not None and self.partial.offset == self._size:
            if not self.partial.differs(self.locked):
                return
            self._begin_anew()
        settings = self.client.settings
        urls: list[str] = []
        for url in self.addresses.urls(self.locked):
            if url in self._refusals:
                continue
            if self._from(url):
                return
            urls.append(url)
        idle, before = 1, self._gained
        while idle < settings.attempts:
            urls = [url for url in urls if self._refusals[url].again]
            if not urls:
                break
            pause = min(settings.backoff_s * 2 ** (idle - 1), _LONGEST_BACKOFF_S)
            for url in sorted(urls, key=lambda url: self._earliest.get(url, 0.0)):
                self.stop.wait(max(pause, self._earliest.get(url, 0.0) - time.monotonic()))
                if self._from(url):
                    return
                pause = 0.0
            idle, before = (1 if self._gained - before >= _LEAST else idle + 1), self._gained
        lost = settings.lost
        silent = {
            source: Refusal(why, again=True, unreachable=bool(lost.why(source)))
            for source, why in self.addresses.silent(self.locked).items()
        }
        raise Unobtainable(self.locked, silent | {redact(url): refusal for url, refusal in self._refusals.items()})

    @property
    def lost(self) -> dict[str, str]:
        """The hosts that could not be reached, and why."""
        return {short_name(url): refusal.why for url, refusal in self._refusals.items() if refusal.unreachable}

    @property
    def _size(self) -> int | None:
        return self.locked.size if self.locked.sha256 or self.locked.md5 else None

    def _from(self, url: str) -> bool:
        """Try one address for as long as it sends more bytes."""
        while True:
            refusal, came = self._attempt(url)
            if refusal is None:
                return True
            self._refusals[url] = refusal
            if refusal.wait_s is not None:
                wait = min(refusal.wait_s, self.client.settings.longest_wait_s)
                self._earliest[url] = time.monotonic() + wait
            gained = 0 if isinstance(refusal, Slow) else max(0, self.partial.offset - self._furthest)
            self._gained += gained
            self._furthest = max(self._furthest, self.partial.offset)
            why = f"{self.locked.name}: {short_name(url)}: {refusal.why}"
            mismatch = refusal.other_bytes and came > 0
            if mismatch:
                self._begin_anew()
            if mismatch and url not in self._restarted:
                self._restarted.add(url)
                notify(f"{why}; fetching it once more from the start")
            elif refusal.again and gained >= _LEAST:
                notify(f"{why}; continuing from {size(self.partial.offset)}")
            else:
                if not refusal.unreachable:
                    notify(why)
                return False

    def _attempt(self, url: str) -> tuple[Refusal | None, int]:
        """The error of one request, None if the file is complete; and how many bytes arrived.

        Bytes that can belong to the file are kept. Raises OSError if the partial file cannot be written; Stopped.
        """
        self._came = 0
        refusal = None
        try:
            self._transfer(url)
            if difference := self.partial.differs(self.locked):
                refusal = Refusal(f"other bytes: {difference}", other_bytes=True)
        except Refusal as error:
            refusal = error
        self.addresses.report(url, refusal.why if refusal else None)
        return refusal, self._came

    def _transfer(self, url: str) -> None:
        """Complete the partial file from this address, continuing at its offset. Raises Refusal."""
        parts = urlsplit(url)
        if parts.scheme == "file" and self.client.settings.own.holds(url):
            self._copy(Path(unquote(parts.path)))
        elif parts.scheme not in ("http", "https"):
            raise Refusal(f"not an address of a file: {redact(url)}")
        elif not self._ask(url):
            self.partial.restart()
            if not self._ask(url):
                raise Refusal("it answers with a part of the file")

    def _ask(self, url: str) -> bool:
        """Whether the answer could be used; else the complete file must be requested."""
        partial, headers = self.partial, {}
        etag = partial.etag if partial.url == url else None
        # Without a checksum only a strong ETag proves that both parts are of one file.
        if partial.offset and self._size is None and etag is None:
            partial.restart()
        if partial.offset:
            headers["Range"] = f"bytes={partial.offset}-{'' if self._size is None else self._size - 1}"
            if etag:
                headers["If-Range"] = etag
        with self.client.ask(url, headers) as answer, self.stop.ends(answer.stop):
            body = judge(answer.status, answer.headers, partial.offset, self._size, time.time())
            if body.do == "repeat":
                return False
            if body.do == "start" and partial.offset:
                partial.restart()
            partial.came_from(url, strong_etag(answer.headers))
            self._read(answer, body)
        return True

    def _read(self, answer: Answer, body: Body) -> None:
        partial, settings = self.partial, self.client.settings
        size = body.total if self._size is None else self._size
        if self._size is None and (body.encoded or (size is None and not answer.chunked)):
            raise Refusal("it encodes the file" if body.encoded else "it does not state the length of the file")
        since, before = time.monotonic(), partial.offset
        try:
            while block := answer.read():
                if size is not None and partial.offset + len(block) > size:
                    raise other_size(partial.offset + len(block), size)
                self._write(block)
                lasted = time.monotonic() - since
                if lasted >= settings.slow_window_s:
                    if partial.offset - before < settings.slow_rate * lasted:
                        raise Slow(settings.slow_rate, lasted)
                    since, before = since + lasted, partial.offset
            if size is not None and partial.offset < size:
                raise Refusal(f"the connection ended {size - partial.offset} bytes early", again=True)
        except Refusal:
            if body.encoded:
                partial.restart()
            raise

    def _copy(self, path: Path) -> None:
        try:
            file = path.open("rb")
        except OSError as error:
            raise Refusal(error.strerror or str(error), gone=isinstance(error, FileNotFoundError)) from None
        with file:
            actual_size = path.stat().st_size
            if self._size is not None and actual_size != self._size:
                raise other_size(actual_size, self._size)
            if self._size is None:
                self.partial.restart()
            file.seek(self.partial.offset)
            while (block := file.read(_COPY_BLOCK)) and self.partial.offset < actual_size:
                self._write(block)

    def _write(self, block: bytes) -> None:
        self.partial.write(block)
        self._came += len(block)
        self.tally.got(len(block))
        self.tally.at(self.locked.key, self.locked.name, self.partial.offset)
        self.stop.check()

    def _begin_anew(self) -> None:
        self.partial.restart()
        self._furthest = 0
        self.tally.at(self.locked.key, self.locked.name, 0)


def short_name(url: str) -> str:
    """The short name of an address in messages: its host, or the path of a file."""
    parts = urlsplit(url)
    return parts.hostname or parts.path


class Measure:
    """Use as a context manager; several threads may call it at once."""

    def __init__(self, addresses: Addresses) -> None:
        self.store, self.settings = addresses.store, addresses.settings
        self._listed = OwnAddresses(addresses.store, addresses.settings)

    def __enter__(self) -> Measure:
        self._client = Client(self.settings)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __call__(self, urls: Sequence[str], sha256: str | None = None) -> tuple[str, int]:
        """sha256 and size in bytes of the file at these addresses.

        If the checksum is known, only the size is requested; if the addresses disagree, or without a checksum, the
        file is downloaded into the store. Raises SourceError if no address has it, or if its checksum differs.
        """
        if sha256:
            stored = self.store.path(sha256)
            size = stored.stat().st_size if stored.is_file() else None
            stated = {size} if size is not None else set(filter(None, map(self.size, urls)))
            if len(stated) == 1:
                return sha256, stated.pop()
            for url in urls if stated else ():  # a server may answer with an error page and status 200
                with suppress(SourceError):
                    got, size = self.download([url])
                    if got == sha256:
                        return got, size
        got, size = self.download(urls)
        if sha256 and got != sha256:
            raise SourceError(
                f"it has changed upstream: expected sha256 {sha256}, got {got}",
                redact(urls[0]),
                "the new file was not used; to accept it, correct the recipe's sha256",
            )
        return got, size

    def download(self, urls: Sequence[str]) -> tuple[str, int]:
        """Download a file into the store; its sha256 and size in bytes.

        The first address that serves a complete file decides. There is no checksum to compare with, so an interrupted
        download continues only if a strong ETag proves that the file is the same, and a file of unknown length is
        refused. Raises SourceError with the last error of every address, EngineError if the store is not writable.
        """
        unknown = LockedInput("files", short_name(urls[0]) if urls else "", "", 0, {}, tuple(urls))
        with self.store.scratch() as scratch:
            path = Path(scratch) / "file"
            try:
                with Partial(FileIO(path, "w+"), path) as partial:
                    Download(unknown, partial, self._listed, self._client, Stop(), Tally(1, 0)).run()
                    size = partial.offset
                    partial.publish(self.store)
                    return partial.sha256, size
            except OSError as error:
                raise unwritable(error, self.store) from None
            except Unobtainable as error:
                reasons = "; ".join(f"{short_name(url)}: {refusal.why}" for url, refusal in error.refusals.items())
                where = redact(urls[0]) if urls else ""
                raise SourceError(f"cannot download the file: {reasons or 'it has no address'}", where) from None

    def size(self, url: str) -> int | None:
        """The size that a server states for the file, None if it states none."""
        if url.startswith("file:"):
            path = Path(unquote(urlsplit(url).path))
            if not self.settings.own.holds(url):
                return None
            return path.stat().st_size if path.is_file() else None
        try:
            with self._client.ask(url, method="HEAD") as answer:
                length = answer.headers.get("Content-Length", "")
                plain = answer.headers.get("Content-Encoding", "identity") == "identity"
                return int(length) if answer.status == 200 and plain and re.fullmatch(r"\d{1,18}", length) else None
        except Refusal:
            return None
