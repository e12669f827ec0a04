"""A package index (PEP 503) over the wheels and sdists of one build."""

from __future__ import annotations

import html
import shutil
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler
    from reprokit.supply.lock.model import Distribution


def answer(handler: Handler, address: SplitResult) -> None:
    """Answer `/SET/simple/`, `/SET/simple/NAME/` and `/SET/files/FILE`; what is not in the set is 404 and recorded."""
    handler.discard_body()
    wheels = handler.gateway.offer.wheels
    parts = [unquote(part) for part in address.path.split("/") if part]
    if not parts or parts[0] != wheels.key:
        handler.refuse(404, "another build's wheels")
    elif parts[1:] == ["simple"]:
        names = sorted({w.name for w in wheels.wheels})
        _page(handler, "".join(f'<a href="{name}/">{name}</a><br>\n' for name in names))
    elif parts[1:2] == ["simple"] and len(parts) == 3:
        _project(handler, [w for w in wheels.wheels if w.name == canonicalize_name(parts[2])], parts[2])
    elif parts[1:2] == ["files"] and len(parts) == 3:
        _file(handler, next((w for w in wheels.wheels if w.file == parts[2]), None), parts[2])
    else:
        handler.refuse(404, f"nothing here: {address.path}")


def _project(handler: Handler, wheels: list[Distribution], name: str) -> None:
    if not wheels:
        handler.gateway.not_there(name)
        handler.refuse(404, f"{name} is not among the wheels resolved for this variant")
        return
    links = (f'<a href="../../files/{quote(w.file)}#sha256={w.sha256}">{html.escape(w.file)}</a><br>\n' for w in wheels)
    _page(handler, "".join(links))


def _page(handler: Handler, links: str) -> None:
    body = f"<!DOCTYPE html>\n<html><body>\n{links}</body></html>\n".encode()
    handler.start(200, {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body))})
    if handler.command != "HEAD":
        handler.wfile.write(body)


def _file(handler: Handler, wheel: Distribution | None, name: str) -> None:
    if wheel is None:
        handler.gateway.not_there(name)
        handler.refuse(404, f"{name} is not among the wheels resolved for this variant")
        return
    with handler.gateway.store.path(wheel.sha256).open("rb") as file:
        handler.start(200, {"Content-Type": "application/octet-stream", "Content-Length": str(wheel.size)})
        if handler.command != "HEAD":
            shutil.copyfileobj(file, handler.wfile, 1 << 18)
            handler.gateway.served(wheel.size)
