"""What a command's environment gets from its caller, beside what the image says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
# A password may hold what ends an address elsewhere.
_USERINFO = re.compile(r"(?<=://).*@|^(?!\w+://).*@", re.DOTALL)


@dataclass
class Passed:
    """`variables` for the command; names of proxies that it cannot reach, and of those whose password it does not get.

    They go to single commands, so that no address of a proxy is kept in a container's configuration.
    """

    variables: dict[str, str] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)


def from_caller(caller: Mapping[str, str], network: str, terminal: bool) -> Passed:
    """The caller's proxies, without user and password, and at a terminal its kind.

    The command may be a stranger's. A proxy on the host's loopback cannot be reached from a container's own network.
    """
    found = Passed()
    for name, value in caller.items():
        if name.lower() == "no_proxy":
            found.variables[name] = value
        elif name.lower() in _PROXIES and value:
            if network != "host" and _loopback(value):
                found.unreachable.append(name)
                continue
            found.variables[name] = _USERINFO.sub("", value)
            if found.variables[name] != value:
                found.bare.append(name)
    if terminal:
        found.variables["TERM"] = caller.get("TERM") or "xterm"
    return found


def _loopback(proxy: str) -> bool:
    try:
        host = urlsplit(proxy if "://" in proxy else f"http://{proxy}").hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.")
