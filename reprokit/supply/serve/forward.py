"""Forward a build's plain HTTP requests (apt's), streamed both ways, through the host's proxy if there is one."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from urllib3 import HTTPHeaderDict
from urllib3.util import SKIP_HEADER

from reprokit.redact import redact
from reprokit.supply.fetch.answers import Refusal

if TYPE_CHECKING:
    from reprokit.supply.fetch.http import Answer
    from reprokit.supply.gateway import Handler

# RFC 9110 section 7.6.1: headers of one connection, never passed on.
_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


def forward(handler: Handler, address: SplitResult) -> None:
    """Send the handler's request on and stream the answer back; 502 with the reason if that fails.

    Files of a distribution's archive are first requested from the user's and the host's own mirrors.
    """
    if handler.headers.get("Transfer-Encoding"):
        handler.close_connection = True
        handler.refuse(411, "a request body must state its length")
        return
    mirrors = handler.gateway.mirrored(address) if handler.command in ("GET", "HEAD") else []
    for mirror in mirrors:
        try:
            with contextlib.closing(_send(handler, mirror)) as answer:
                handler.gateway.mirrors.report(mirror.geturl(), None)
                if answer.status < 400:
                    _relay(handler, address, answer)
                    return
        except Refusal as refusal:
            handler.gateway.mirrors.report(mirror.geturl(), refusal.why)
    try:
        with contextlib.closing(_send(handler, address)) as answer:
            _relay(handler, address, answer)
    except Refusal as refusal:
        proxy = handler.gateway.proxy(address)
        via = f" through the proxy {redact(proxy.geturl())}" if proxy else ""
        handler.close_connection = True
        handler.refuse(502, f"cannot reach {address.hostname}{via}: {refusal.why}")


def _send(handler: Handler, address: SplitResult) -> Answer:
    """The request of the handler at this address. Raises Refusal."""
    client = handler.gateway.client
    own = client.authorization(address) if address.username is not None else {}
    replaced = {*_HOP_BY_HOP, "host", *(name.lower() for name in own)}
    if handler.gateway.own is not None and not handler.gateway.own.trusts(address):
        replaced.add("authorization")  # netrc knows no schemes: uv and pip send its passwords over plain http too
    headers = HTTPHeaderDict((k, v) for k, v in handler.headers.items() if k.lower() not in replaced)
    for name in ("User-Agent", "Accept-Encoding"):
        headers.setdefault(name, SKIP_HEADER)
    headers |= own
    return client.send(address, handler.command, headers, handler.body() if "Content-Length" in headers else None)


def _relay(handler: Handler, address: SplitResult, answer: Answer) -> None:
    """Pass the answer on, and record it. Raises Refusal only before the first byte is sent."""
    recorder, location = handler.gateway.recorder, answer.headers.get("Location")
    if recorder and handler.command == "GET" and 300 <= answer.status < 400 and location:
        recorder.redirected(address.geturl(), location)
    recorded = recorder if handler.command == "GET" and answer.status == 200 else None
    size, digest = 0, hashlib.sha256()
    bodiless = handler.command == "HEAD" or answer.status in (204, 304) or answer.status < 200
    # HTTP/1.0 clients know no chunks: there the end of the connection is the end of the body.
    sized = bodiless or answer.headers.get("Content-Length") is not None
    chunked = not sized and handler.request_version == "HTTP/1.1"
    handler.send_response_only(answer.status, answer.reason)
    for name, value in answer.headers.items():
        if name.lower() not in _HOP_BY_HOP:
            handler.send_header(name, value)
    if chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    elif not sized:
        handler.send_header("Connection", "close")
        handler.close_connection = True
    handler.end_headers()
    if bodiless:
        return
    try:
        while block := answer.read():
            handler.gateway.served(len(block))
            if recorded:
                size += len(block)
                digest.update(block)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
    except (OSError, Refusal):
        handler.close_connection = True  # a truncated body must not look complete
        return
    if chunked:
        handler.wfile.write(b"0\r\n\r\n")
    if recorded:
        recorded.arrived(address.geturl(), size, digest.hexdigest())
