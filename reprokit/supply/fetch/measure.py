"""Checksums and sizes of files that are known only by their addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reprokit.errors import SourceError
from reprokit.redact import redact
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.download import Download, Unobtainable, place
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.places import OwnAddresses, Places
from reprokit.supply.fetch.progress import Tally
from reprokit.supply.fetch.stop import Stop
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import unwritable


class Measure:
    """Use as a context manager; several threads may call it at once."""

    def __init__(self, places: Places) -> None:
        self.store, self.settings = places.store, places.settings
        self._listed = OwnAddresses(places.store, places.settings)

    def __enter__(self) -> Measure:
        self._client = Client(self.settings)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __call__(self, urls: Sequence[str], sha256: str | None = None) -> tuple[str, int]:
        """sha256 and size in bytes of the file at these addresses.

        Where the checksum is known, only the size is asked for; if the addresses disagree, or without a checksum, the
        file is downloaded into the store. Raises SourceError if no address has it, or if its checksum differs.
        """
        if sha256:
            stored = self.store.path(sha256)
            size = stored.stat().st_size if stored.is_file() else None
            stated = {size} if size is not None else set(filter(None, map(self.size, urls)))
            if len(stated) == 1:
                return sha256, stated.pop()
            for url in urls if stated else ():  # one of them serves a page of its own with status 200
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

        The first address that gives a complete file decides. There is no checksum to compare with, so an interrupted
        download continues only if a strong ETag proves that the file is the same, and a file of unknown length is
        refused. Raises SourceError with the last error of every address, EngineError if the store is not writable.
        """
        unknown = LockedInput("files", place(urls[0]) if urls else "", "", 0, {}, tuple(urls))
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
                reasons = "; ".join(f"{place(url)}: {refusal.why}" for url, refusal in error.refusals.items())
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
