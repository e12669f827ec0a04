"""The interface between downloads and mirrors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from reprokit.supply.locked_input import LockedInput


class Places(Protocol):
    """Addresses of files; several threads call these methods at once."""

    def urls(self, locked: LockedInput) -> Iterator[str]:
        """http://, https:// and file:// addresses in the order to try; each is looked up only when those before failed.

        They may hold user and password, which are sent to that host alone and never shown.
        """
        ...

    def report(self, url: str, error: str | None) -> None:
        """Record why an attempt failed, or with None that it worked."""
        ...

    def silent(self, locked: LockedInput) -> Mapping[str, str]:
        """Indexes that could not be asked for the file, without credentials, and the error of each."""
        ...
