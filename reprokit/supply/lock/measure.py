"""Checksums and sizes of files that are known by their addresses only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

from reprokit.errors import SourceError
from reprokit.redact import redact
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.learn import learn
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.store import Store


class Measure:
    """Use as a context manager; may be called by several threads at once. `say` is told of every download."""

    def __init__(self, store: Store, settings: Settings, say: Callable[[str], None] = lambda line: None) -> None:
        self.store, self.settings, self.say = store, settings, say

    def __enter__(self) -> Measure:
        self._client = Client(self.settings).__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.__exit__(kind, error, at)

    def __call__(self, urls: Sequence[str], sha256: str | None = None) -> tuple[str, int]:
        """sha256 and size in bytes of the file that all these addresses give.

        Where the checksum is known, the size is asked for; else the file is downloaded into the store. Raises
        SourceError where no address gives it, or where what it gives has another checksum, naming expected and got.
        """
        if sha256:
            size = self._size_here(sha256) or next(filter(None, map(self.size, urls)), None)
            if size is not None:
                return sha256, size
        got, size = learn(urls, self.store, self.settings, self.say)
        if sha256 and got != sha256:
            raise SourceError(
                f"it has changed upstream: expected sha256 {sha256}, got {got}",
                redact(urls[0]),
                "nothing of it is used; if upstream means it, correct the recipe's sha256",
            )
        return got, size

    def size(self, url: str) -> int | None:
        """What the address says of the file's size, None where it says nothing of use."""
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

    def _size_here(self, sha256: str) -> int | None:
        path = self.store.path(sha256)
        return path.stat().st_size if path.is_file() else None
