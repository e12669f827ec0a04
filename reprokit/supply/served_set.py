"""The inputs that the gateway of one build serves from the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reprokit.supply.kinds import kinds


class ServedSet:
    """Locked inputs by kind, all of them in the store.

    Of kinds that are not given, the build asks for the original addresses, through the gateway. Wheels and git commits
    are served always, even if there are none.
    """

    def __init__(self, **entries: Iterable[Any]) -> None:
        self.entries: dict[str, tuple[Any, ...]] = {name: tuple(each) for name, each in entries.items()}
        served = [kind for kind in kinds() if kind.always or kind.name in entries]
        self.servers = [kind.server(self.of(kind.name)) for kind in served]

    def of(self, kind: str) -> Sequence[Any]:
        return self.entries.get(kind, ())

    def arguments(self) -> dict[str, str]:
        """Build arguments with the addresses of the inputs.

        An address holds a hash of its content, so that another set is another layer, and not the gateway's port.
        """
        found: dict[str, str] = {}
        for server in self.servers:
            found |= server.arguments()
        return found

    @property
    def described(self) -> str:
        """Number and size of the inputs."""
        counts = ", ".join(f"{len(self.of(k.name))} {k.counted}" for k in kinds() if self.of(k.name))
        size = sum(getattr(entry, "size", 0) for each in self.entries.values() for entry in each)
        return f"{counts} ({size / 1e6:.0f} MB)" if counts else ""
