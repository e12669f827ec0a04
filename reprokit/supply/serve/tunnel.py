"""CONNECT: bytes passed between a build and a host, unread."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import TYPE_CHECKING
from urllib.parse import unquote

from urllib3 import make_headers

from reprokit.redact import redact
from reprokit.supply.fetch.settings import host_proxy
from reprokit.untrusted.addresses import Named, NotPublic, check_for_proxy, connect

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler

_CONNECT_TIMEOUT_S = 30
_IDLE_TIMEOUT_S = 600
_BLOCK = 1 << 16


def open_tunnel(handler: Handler, name: str) -> None:
    """Connect to `host:port`, through the host's proxy if it has one; 502 with the reason if that fails."""
    handler.close_connection = True
    host, _, port = name.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        handler.refuse(400, f"not host:port: {name}")
        return
    lost, url = handler.gateway.store.lost, f"//{name}"
    if why := lost.why(url):
        handler.refuse(502, f"cannot reach {name}: {why}")
        return
    try:
        upstream = _connect(host, int(port), handler.gateway.named)
    except OSError as error:
        if not isinstance(error, NotPublic):
            lost.failed(url, error.strerror or str(error))
        handler.refuse(502, f"cannot reach {name}: {error}")
        return
    lost.answered(url)
    with upstream:
        handler.send_response_only(200, "Connection established")
        handler.end_headers()
        with contextlib.suppress(OSError):
            _carry(handler, upstream)


def _connect(host: str, port: int, named: Named) -> socket.socket:
    proxy = host_proxy("https", host)
    if proxy is None:
        return connect(host, port, _CONNECT_TIMEOUT_S, named)
    check_for_proxy(host, port, named)
    upstream = socket.create_connection((proxy.hostname, proxy.port or 80), _CONNECT_TIMEOUT_S)
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}" if proxy.username is not None else None
    known = make_headers(proxy_basic_auth=login)
    headers = "".join(f"{name}: {value}\r\n" for name, value in known.items())
    upstream.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        byte = upstream.recv(1)  # one at a time: the bytes after the header belong to the tunnel
        if not byte or len(answer) > 16384:
            break
        answer += byte
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    if " 200" not in status:
        upstream.close()
        raise OSError(f"the proxy {redact(proxy.geturl())} answered {status!r}")
    return upstream


def _carry(handler: Handler, upstream: socket.socket) -> None:
    ends = {handler.connection: upstream, upstream: handler.connection}
    while ends:
        ready, _, _ = select.select(list(ends), [], [], _IDLE_TIMEOUT_S)
        if not ready:
            return
        for source in ready:
            block = source.recv(_BLOCK)
            if not block:
                with contextlib.suppress(OSError):
                    ends[source].shutdown(socket.SHUT_WR)
                del ends[source]
                continue
            ends_to = upstream if source is handler.connection else handler.connection
            ends_to.sendall(block)
            if source is upstream:
                handler.gateway.served(len(block))
