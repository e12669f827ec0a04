"""The interface between downloads and mirrors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from reprokit.supply.fetch.settings import Settings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store


class Places(Protocol):
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
        """Indexes that could not be asked for the file, without credentials, and the error of each."""
        ...


@dataclass
class OwnAddresses:
    """The addresses that a file's entry names, and no others: these are `Places`."""

    store: Store
    settings: Settings

    def urls(self, locked: LockedInput) -> Iterator[str]:
        return iter(locked.urls)

    def report(self, url: str, error: str | None) -> None:
        pass

    def silent(self, locked: LockedInput) -> Mapping[str, str]:
        return {}
