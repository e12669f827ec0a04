"""The inputs that the gateway of one build serves from the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from reprokit.recipe.blocks import argument
from reprokit.supply.kinds import all_kinds
from reprokit.supply.kinds.kind import InputServer


class ServedSet:
    """Locked inputs by kind, all of them in the store.

    `blocks` lists, for each kind, the blocks that have their own set. Any other kind has one set, for the block named
    after it. For kinds that are not served, the build requests the original addresses through the gateway.
    """

    def __init__(self, blocks: Mapping[str, Collection[str]] = {}, **entries: Iterable[Any]) -> None:
        self.entries: dict[str, tuple[Any, ...]] = {kind: tuple(of_kind) for kind, of_kind in entries.items()}
        self.servers: dict[str, InputServer] = {}
        for kind in all_kinds():
            if kind.always or kind.name in entries:
                for block in blocks.get(kind.name, (kind.name,)):
                    self.servers[argument(kind.name, block)] = kind.server(self.of(kind.name, block))
                self.servers |= kind.other_servers(self.of(kind.name))

    def of(self, kind: str, block: str = "") -> Sequence[Any]:
        """The inputs of a kind, or those of a block."""
        entries = self.entries.get(kind, ())
        return [e for e in entries if block in getattr(e, "blocks", (block,))] if block else entries

    def arguments(self) -> dict[str, str]:
        """Build arguments with the addresses of the inputs.

        An address has a hash of the set alone, so equal sets give equal layers in all recipes.
        """
        return {name: server.address for name, server in self.servers.items() if server.address}

    @property
    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """The inputs as JSON, by kind."""
        return {kind: [entry.model_dump(mode="json") for entry in entries] for kind, entries in self.entries.items()}

    @property
    def described(self) -> str:
        """Number and size of the inputs."""
        counts = ", ".join(f"{len(self.of(k.name))} {k.counted}" for k in all_kinds() if self.of(k.name))
        size = sum(getattr(entry, "size", 0) for of_kind in self.entries.values() for entry in of_kind)
        return f"{counts} ({size / 1e6:.0f} MB)" if counts else ""
