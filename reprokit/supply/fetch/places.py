"""What downloads ask of whoever knows the mirrors (`reprokit.supply.mirrors`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from reprokit.supply.locked_input import LockedInput


class Places(Protocol):
    """Where files may be had. Its methods are called from several threads at once."""

    def urls(self, want: LockedInput) -> Iterator[str]:
        """http://, https:// and file:// addresses in the order to try; each is made only when those before it failed.

        User and password may stand in them. They are sent to that host alone, and never shown.
        """
        ...

    def report(self, url: str, error: str | None) -> None:
        """Record why an attempt failed, or with None that it worked."""
        ...

    def silent(self, want: LockedInput) -> Mapping[str, str]:
        """Places that may have the file and could not be asked for its address, without credentials, and why."""
        ...
