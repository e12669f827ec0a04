"""Connections to untrusted addresses: only to public hosts, and to hosts of the user's configuration.

The connection uses the IP address that was checked, so that a name cannot change in between. A proxy resolves names
itself; for it only numbers and `localhost` are checked.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_DOCUMENTATION = tuple(
    map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"))
)
_V4_COMPATIBLE = ipaddress.ip_network("::/96")


class NotPublic(OSError):
    """The host of an untrusted address is on this machine or its network."""

    def __init__(self, host: str, address: str) -> None:
        at = "" if host == address else f" is at {address}, which"
        super().__init__(f"{host}{at} is not public; if you trust it, add it to `hosts:` of your configuration")


@dataclass(frozen=True)
class Own:
    """Servers of the user's configuration as (scheme, host, port), with port 0 for any, and its `file://` folders.

    Made by `of`. Only these may be on this machine or its network, and only these get the user's credentials.
    """

    servers: frozenset[tuple[str, str, int]] = frozenset()
    folders: frozenset[str] = frozenset()

    @classmethod
    def of(cls, addresses: Iterable[str]) -> Own:
        """`addresses` are addresses, templates of addresses, or `HOST[:PORT]` for https."""
        servers, folders = set(), set()
        for text in addresses:
            fixed = text.partition("{")[0]
            address = urlsplit(fixed if "://" in fixed else f"https://{fixed}")
            if address.scheme == "file":
                path = unquote(address.path)
                whole = fixed == text and not path.endswith((".html", ".htm"))
                folders.add(os.path.normpath(path if whole else path.rpartition("/")[0] or "/"))
            elif address.hostname and (address.path or fixed == text):  # otherwise the host itself is a placeholder
                port = address.port or (_PORTS[address.scheme] if "://" in fixed else 0)
                servers.add((address.scheme, address.hostname, port))
        return cls(frozenset(servers), frozenset(folders))

    def names(self, host: str, port: int) -> bool:
        return any((h, p) in ((host.lower(), port), (host.lower(), 0)) for _, h, p in self.servers)

    def trusts(self, address: SplitResult) -> bool:
        """Whether the user's credentials may be sent: over https, or over http if exactly that is configured."""
        host, port = address.hostname or "", address.port or _PORTS.get(address.scheme, 0)
        return (address.scheme, host, port) in self.servers or (address.scheme == "https" and self.names(host, port))

    def holds(self, url: str) -> bool:
        """Whether a `file://` address is in a folder of the user's configuration."""
        path = os.path.normpath(unquote(urlsplit(url).path))
        return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in self.folders)


Named = Callable[[str, int], bool]


def connect(host: str, port: int, timeout: float | None, named: Named) -> socket.socket:
    """A TCP connection to a public address of `host`, or to any address if the host is `named`.

    Raises NotPublic if it has no such address, and OSError.
    """
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
        if not is_public(str(address[0])) and not named(host, port):
            last = NotPublic(host, str(address[0]))
            continue
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect(address)
            return connection
        except OSError as error:
            last = error
            connection.close()
    raise last


def check_for_proxy(host: str, port: int, named: Named) -> None:
    """Check a host before it is requested from a proxy. Raises NotPublic for numbers and names that are not public."""
    if host.lower().rstrip(".").endswith("localhost"):
        address = "127.0.0.1"
    else:
        try:  # all notations of a number, such as 2130706433 and 0x7f.1
            address = str(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)[0][4][0])
        except OSError:
            return
    if not is_public(address) and not named(host, port):
        raise NotPublic(host, address)


def is_public(text: str) -> bool:
    """Whether an IP address is public: not loopback, private, link-local, multicast or reserved.

    Addresses for documentation (RFC 5737, RFC 3849) count as public: sandboxes use them for names of the internet.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in _DOCUMENTATION):
        return True
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return is_public(str(inner))
        if address in _V4_COMPATIBLE or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)
