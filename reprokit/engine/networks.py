"""Networks of the engine."""

from __future__ import annotations

from typing import Any

import docker.errors

from reprokit.engine.client import EngineClient
from reprokit.engine.failures import translated


class Networks(EngineClient):
    """The calls of the Engine API about networks."""

    def networks(self, label: str) -> list[dict[str, Any]]:
        """Networks that carry a label, `NAME` or `NAME=VALUE`."""
        with translated():
            return self.api.networks(filters={"label": label})

    def has_network(self, name: str) -> bool:
        """Whether there is a network of this name or ID."""
        with translated(where=name):
            try:
                self.api.inspect_network(name)
            except docker.errors.NotFound:
                return False
        return True

    def create_network(self, name: str, labels: dict[str, str]) -> None:
        """Create a network whose containers reach each other, and through it nothing else."""
        with translated(where=name):
            self.api.create_network(name, driver="bridge", internal=True, check_duplicate=True, labels=labels)

    def join(self, network: str, container: str) -> None:
        with translated(where=network):
            self.api.connect_container_to_network(container, network)

    def leave(self, network: str, container: str) -> None:
        """Disconnect a container, also from a network that is gone: it could not start with that."""
        with translated(where=network):
            self.api.disconnect_container_from_network(container, network, force=True)

    def remove_network(self, network: str) -> None:
        with translated(where=network):
            self.api.remove_network(network)
