"""The secrets of one build, served only to the steps of blocks that name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from reprokit.errors import ReprokitError
from reprokit.redact import masking
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler


class SecretSite:
    """Secrets at `http://secrets.reprokit.invalid/NAME`: a `kind.InputServer` without a build argument.

    The address is constant, so no value changes the layer cache's key. `allowed` returns the names that the running
    step may have; it is called for each request.
    """

    host = "secrets.reprokit.invalid"
    key = ""
    address = ""

    def __init__(self, values: Mapping[str, bytes], allowed: Callable[[], Collection[str]]) -> None:
        self._values, self._allowed = values, allowed
        self.mask = masking(value.decode(errors="replace") for value in values.values())

    def prepare(self, store: Store, scratch: Path) -> None:
        """Nothing of a secret is ever in a file."""

    def answer(self, handler: Handler, address: SplitResult) -> None:
        handler.discard_body()
        name = address.path.removeprefix("/")
        try:
            value = self._values[name] if name in self._values and name in self._allowed() else None
        except ReprokitError as error:
            handler.refuse(503, f"no secret is served: {error.message}")
            return
        if value is None:
            handler.gateway.note(handler.gateway.missing, f"secret {name}")
            handler.refuse(403, f"the block of this step does not name the secret {name[:100]}")
            return
        handler.start(200, {"Content-Type": "application/octet-stream", "Content-Length": str(len(value))})
        if handler.command != "HEAD":
            handler.wfile.write(value)
