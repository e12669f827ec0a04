"""The login's proxies, and whether builds and containers can reach them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from reprokit.compat.model import Finding
from reprokit.container.session import caller_variables
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.shell import clipped
from reprokit.redact import redact

_CONNECT_S = 3.0
_NAMES = ("http_proxy", "https_proxy", "all_proxy")
_SCRIPT = "env | grep -iE '^(http|https|all)_proxy=.' | say proxy\n"
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def find(host: Examined) -> Iterator[Finding]:
    # Not cut before the password is taken out: a token may be long.
    environment = dict(line.partition("=")[::2] for line in host.ask(_SCRIPT).lines.get("proxy", []))
    loopback = caller_variables(environment, "bridge", False).unreachable
    asked: dict[str, str] = {}
    for name, value in environment.items():
        subject = f"${name}={shown(value)}"
        if not host.node and value not in asked:
            asked[value] = _connection_error(value)
        if asked.get(value):
            reason = f"the proxy cannot be used: {asked[value]}; downloads and builds go through it"
            yield error("proxies.unreachable", subject, reason, f"correct it, or `unset {name}`")
        elif name in loopback:
            reason = (
                "the proxy is on the host's loopback: builds reach it through reprokit's gateway, but containers do "
                "not, and do not get it"
            )
            remedy = "`--network host` reaches it, or let the proxy listen on an address that containers reach"
            yield warning("proxies.loopback", subject, reason, remedy)
        else:
            yield info("proxies", subject, "builds reach it through reprokit's gateway")
    yield from _unlike(environment)
    if not environment:
        yield info("proxies", "host.proxies=none")


def _unlike(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name in _NAMES:
        values = {value for key, value in environment.items() if key.lower() == name}
        if len(values) > 1:
            reason = f"${name} and ${name.upper()} differ: some programs read one, some the other"
            yield warning("proxies.unlike", f"${name}", reason, f"`export {name.upper()}=${name}`")


def shown(proxy: str) -> str:
    """The address of a proxy without user and password."""
    return clipped(redact(proxy if "://" in proxy else f"http://{proxy}"))


def _connection_error(proxy: str) -> str:
    """Why the proxy accepts no connection, "" if it does."""
    try:
        address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        port = address.port or _PORTS.get(address.scheme, 0)
        if not address.hostname or not port:
            return "it is not an address such as http://HOST:PORT"
        socket.create_connection((address.hostname, port), _CONNECT_S).close()
    except ValueError:
        return "it is not an address such as http://HOST:PORT"
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    return ""
