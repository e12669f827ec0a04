"""The plain files of one build, by the names that the recipe gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote

from reprokit.supply.serve.content import send_file
from reprokit.supply.served_set import content_key

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler


def answer(handler: Handler, address: SplitResult) -> None:
    """Answer `/KEY/NAME`; what is not in the lock is 404 and recorded."""
    handler.discard_body()
    files = handler.gateway.offer.files
    key, _, name = unquote(address.path).lstrip("/").partition("/")
    found = next((file for file in files if file.name == name), None)
    if key != content_key(files):
        handler.refuse(404, "another build's files")
    elif found is None:
        handler.gateway.not_there(name)
        handler.refuse(404, f"{name} is not in the lock")
    else:
        send_file(handler, handler.gateway.store.path(found.sha256))
