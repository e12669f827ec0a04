"""Plain HTTP passed on, as apt asks for it: streamed both ways, through the host's own proxy where it has one."""

from __future__ import annotations

import contextlib
import http.client
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from reprokit.redact import redact
from reprokit.untrusted.addresses import Named, check_for_proxy, connect

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler
    from reprokit.supply.policy import Passing

_TIMEOUT_S = 60
_BLOCK = 1 << 16
# RFC 9110 section 7.6.1: about one connection only, never passed on.
_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


def host_proxy(scheme: str, host: str) -> SplitResult | None:
    """The proxy that this host's own settings name for such a request."""
    proxies = urllib.request.getproxies()
    if scheme not in proxies or urllib.request.proxy_bypass(host):
        return None
    address = proxies[scheme]
    return urlsplit(address if "://" in address else f"http://{address}")


def proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    return _authorization("Proxy-Authorization", proxy)


def _authorization(header: str, address: SplitResult) -> dict[str, str]:
    if address.username is None:
        return {}
    pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return {header: "Basic " + b64encode(pair.encode()).decode()}


def forward(handler: Handler, address: SplitResult) -> None:
    """Send the handler's request on and stream the answer back; 502 with the reason where that fails.

    A file of a distribution's archive is asked for at the user's and the host's own mirrors first.
    """
    if handler.headers.get("Transfer-Encoding"):
        handler.close_connection = True
        handler.refuse(411, "a request body must state its length")
        return
    mirrors = handler.gateway.mirrored(address) if handler.command in ("GET", "HEAD") else []
    for mirror in mirrors:
        try:
            with _ask(handler, mirror) as answer:
                handler.gateway.mirrors.report(mirror.geturl(), None)
                if answer.status < 400:
                    _relay(handler, answer, _recording(handler, address, answer))
                    return
        except _Unreachable as error:
            handler.gateway.mirrors.report(mirror.geturl(), str(error))
    try:
        with _ask(handler, address) as answer:
            _relay(handler, answer, _recording(handler, address, answer))
    except _Unreachable as error:
        handler.close_connection = True
        handler.refuse(502, str(error))


class _Unreachable(OSError):
    pass


@contextlib.contextmanager
def _ask(handler: Handler, address: SplitResult) -> Iterator[http.client.HTTPResponse]:
    host = address.hostname or ""
    proxy = host_proxy(address.scheme, host) or handler.gateway.apt_proxy(address)
    bare = address._replace(netloc=address.netloc.rpartition("@")[2])
    upstream, target, extra = _connection(bare, proxy, handler.gateway.named)
    try:
        try:
            if proxy:
                check_for_proxy(host, address.port or upstream.default_port, handler.gateway.named)
            upstream.putrequest(handler.command, target, skip_host=True, skip_accept_encoding=True)
            upstream.putheader("Host", bare.netloc)
            own = {**_authorization("Authorization", address), **extra}
            replaced = {*_HOP_BY_HOP, "host", *(name.lower() for name in own)}
            passed = [(k, v) for k, v in handler.headers.items() if k.lower() not in replaced]
            for name, value in [*passed, *own.items()]:
                upstream.putheader(name, value)
            upstream.putheader("Connection", "close")
            upstream.endheaders()
            length = int(handler.headers.get("Content-Length") or 0)
            while length > 0 and (block := handler.rfile.read(min(length, _BLOCK))):
                upstream.send(block)
                length -= len(block)
            answer = upstream.getresponse()
        except (OSError, http.client.HTTPException) as error:
            via = f" through the proxy {redact(proxy.geturl())}" if proxy else ""
            raise _Unreachable(f"cannot reach {host}{via}: {error or type(error).__name__}") from None
        yield answer
    finally:
        upstream.close()


def _connection(
    address: SplitResult, proxy: SplitResult | None, named: Named
) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """A connection for this address, what is asked for on it, and the headers that the proxy wants."""
    path = address._replace(scheme="", netloc="").geturl() or "/"
    host, secure = address.hostname or "", address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    if proxy is None:
        direct: Any = kind(host, address.port, timeout=_TIMEOUT_S)
        direct._create_connection = lambda at, timeout, _: connect(at[0], at[1], timeout, named)
        return direct, path, {}
    upstream = kind(proxy.hostname or "", proxy.port or 80, timeout=_TIMEOUT_S)
    if not secure:
        return upstream, address.geturl(), proxy_authorization(proxy)
    upstream.set_tunnel(host, address.port or 443, proxy_authorization(proxy))
    return upstream, path, {}


def _recording(handler: Handler, address: SplitResult, answer: http.client.HTTPResponse) -> Passing | None:
    """What takes note of this answer's body, where there is a recorder and the body is a file."""
    recorder, location = handler.gateway.recorder, answer.headers.get("Location")
    if recorder is None or handler.command != "GET":
        return None
    if 300 <= answer.status < 400 and location:
        recorder.redirected(address.geturl(), location)
    return recorder.passing(address.geturl()) if answer.status == 200 else None


def _relay(handler: Handler, answer: http.client.HTTPResponse, passing: Passing | None) -> None:
    headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP]
    bodiless = handler.command == "HEAD" or answer.status in (204, 304) or answer.status < 200
    # HTTP/1.0 clients know no chunks: there the end of the connection is the end of the body.
    sized = bodiless or answer.headers.get("Content-Length") is not None
    chunked = not sized and handler.request_version == "HTTP/1.1"
    handler.send_response_only(answer.status, answer.reason)
    for name, value in headers:
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
        while block := answer.read1(_BLOCK):
            handler.gateway.served(len(block))
            if passing:
                passing.feed(block)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
    except (OSError, http.client.HTTPException):
        handler.close_connection = True  # a cut body must not look whole
        return
    if chunked:
        handler.wfile.write(b"0\r\n\r\n")
    elif answer.length:  # read1 gives no IncompleteRead
        handler.close_connection = True
        return
    if passing:
        passing.end()
