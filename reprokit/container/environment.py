"""What a command's environment gets from its caller, beside what the image says."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")


def from_caller(caller: Mapping[str, str], network: str, terminal: bool) -> tuple[dict[str, str], list[str]]:
    """The caller's proxies and, at a terminal, its kind; and the proxies that are left out.

    They go to single commands, so that no address or password of a proxy is kept in a container's
    configuration. A proxy on the host's loopback cannot be reached from a container's own network.
    """
    found: dict[str, str] = {}
    unreachable: list[str] = []
    for name, value in caller.items():
        if name.lower() == "no_proxy":
            found[name] = value
        elif name.lower() in _PROXIES and value:
            if network != "host" and _loopback(value):
                unreachable.append(name)
            else:
                found[name] = value
    if terminal:
        found["TERM"] = caller.get("TERM") or "xterm"
    return found, unreachable


def _loopback(proxy: str) -> bool:
    try:
        host = urlsplit(proxy if "://" in proxy else f"http://{proxy}").hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.")
