"""Where wheels may be had: the user's mirrors, pip's own configuration, the recipe's indexes, each looked up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import SplitResult, urlsplit

from reprokit.config.templates import fill
from reprokit.redact import redact
from reprokit.supply.fetch.answers import Refusal, judge
from reprokit.supply.fetch.http import Client
from reprokit.supply.kinds.wheels.lookup import ACCEPT, Lookup, NotThere
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors.rest import Rest

_ATTEMPTS = 3
_PAUSE_S = 1.0  # before the second attempt, twice that before the third
_NOT_THERE = (403, 404, 410)  # object stores that hold an index say 403 of what they have not
_MOST = 64 << 20  # bytes; the largest page of a public index has some 10 MB


class WheelPlaces:
    """Looks files up on `sources` one after the other; a source that fails is not asked again by this object."""

    def __init__(self, sources: tuple[str, ...], rest: Rest, client: Callable[[], Client]) -> None:
        """`sources` are simple indexes, pages of links, folders, or templates of single files; `client` makes one."""
        self.sources = sources
        self.failures: dict[str, str] = {}
        self._rest = rest
        self._new_client = client
        self._client: Client | None = None
        self._lookup = Lookup(self._get)
        self._index_of: dict[str, str] = {}
        self._lock = threading.Lock()

    def urls(self, want: LockedInput) -> Iterator[str]:
        """Where the file is listed. Asks a source only when those before it did not have it."""
        for source in self._rest.order(self.sources):
            for url in self._find(source, want):
                self._index_of.setdefault(urlsplit(url).netloc, source)
                yield url

    def serves(self, address: SplitResult) -> bool:
        """Whether a source is at this address's host, or led to it."""
        hosts = {urlsplit(source).netloc.rpartition("@")[2] for source in self.sources}
        return address.netloc.rpartition("@")[2] in hosts or address.netloc in self._index_of

    def index_of(self, url: str) -> str | None:
        """The source that led to this address's host, if one did."""
        return self._index_of.get(urlsplit(url).netloc)

    def _find(self, source: str, want: LockedInput) -> list[str]:
        if "{" in source:
            url = fill(source, {**want.fields, "sha256": want.sha256})
            return [url] if url else []
        if redact(source) in self.failures:
            return []
        try:
            return list(self._lookup.find(source, want.fields["name"], want.fields["file"], want.sha256))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # it may be anything
            self.failures[redact(source)] = redact(str(error))
            self._rest.report(source, str(error))
            return []

    def _get(self, url: str) -> tuple[bytes, str]:
        with self._lock:
            self._client = self._client or self._new_client()
        attempt = 1
        while True:
            try:
                return _page(self._client, url)
            except Refusal as refusal:
                if not refusal.again or attempt == _ATTEMPTS:
                    raise OSError(refusal.why) from None
            time.sleep(_PAUSE_S * attempt)
            attempt += 1


def _page(client: Client, url: str) -> tuple[bytes, str]:
    with client.ask(url, {"Accept": ACCEPT}) as answer:
        if answer.status in _NOT_THERE:
            raise NotThere(url)
        judge(answer.status, answer.headers, 0, None, time.time())
        body = bytearray()
        while block := answer.read():
            body += block
            if len(body) > _MOST:
                raise Refusal(f"the page has more than {_MOST >> 20} MiB")
        return bytes(body), answer.headers.get("Content-Type", "")
