"""A package index (PEP 503) over the wheels and sdists of one build."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote

from packaging.utils import canonicalize_name

from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import Distribution
from reprokit.supply.serve.content import send_file, send_page
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler


class Index:
    """`/KEY/simple/`, `/KEY/simple/NAME/` and `/KEY/files/FILE`."""

    host = "wheels.reprokit.invalid"

    def __init__(self, wheels: tuple[Distribution, ...]) -> None:
        self.wheels, self.key = wheels, content_key(wheels, "file")

    def arguments(self) -> dict[str, str]:
        return {"REPROKIT_WHEELS": f"http://{self.host}/{self.key}/simple/"}

    def prepare(self, store: Store, scratch: Path) -> None:
        self.store = store

    def answer(self, handler: Handler, address: SplitResult) -> None:
        handler.discard_body()
        key, *parts = [unquote(part) for part in address.path.split("/") if part] or [""]
        if key != self.key:
            handler.refuse(404, "another build's wheels")
        elif parts == ["simple"]:
            names = sorted({wheel.name for wheel in self.wheels})
            _page(handler, "".join(f'<a href="{name}/">{name}</a><br>\n' for name in names))
        elif parts[:1] == ["simple"] and len(parts) == 2:
            project = canonicalize_name(parts[1])
            if wheels := [wheel for wheel in self.wheels if wheel.name == project]:
                _page(handler, "".join(map(_link, wheels)))
            else:
                _missing(handler, parts[1])
        elif parts[:1] == ["files"] and len(parts) == 2:
            if found := next((wheel for wheel in self.wheels if wheel.file == parts[1]), None):
                send_file(handler, self.store.path(found.sha256))
            else:
                _missing(handler, parts[1])
        else:
            handler.refuse(404, f"nothing here: {address.path}")


def _link(wheel: Distribution) -> str:
    return f'<a href="../../files/{quote(wheel.file)}#sha256={wheel.sha256}">{html.escape(wheel.file)}</a><br>\n'


def _missing(handler: Handler, name: str) -> None:
    handler.gateway.not_there(name)
    handler.refuse(404, f"{name} is not among the wheels resolved for this variant")


def _page(handler: Handler, links: str) -> None:
    body = f"<!DOCTYPE html>\n<html><body>\n{links}</body></html>\n".encode()
    send_page(handler, body, "text/html; charset=utf-8")
