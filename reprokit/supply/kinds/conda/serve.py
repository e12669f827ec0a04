"""The conda environment of one build as one tar, for `/opt/conda`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from reprokit.errors import ReprokitError
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.serve.content import send_file
from reprokit.supply.served_set import content_key

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler


def answer(handler: Handler, address: SplitResult) -> None:
    """Answer `/KEY/environment.tar`."""
    handler.discard_body()
    packages = handler.gateway.offer.conda
    if not packages or address.path != f"/{content_key(packages)}/environment.tar":
        handler.refuse(404, f"nothing here: {address.path}")
        return
    try:
        tar = environment(packages, handler.gateway.store)
    except ReprokitError as error:
        handler.refuse(500, error.message)
        return
    send_file(handler, tar)
