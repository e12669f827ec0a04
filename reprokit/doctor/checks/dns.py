"""Names: the resolvers of the machine, and those that containers get."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning

_A_HOST = "github.com"
_STUB = "127.0.0.53"  # systemd's, whose upstream resolvers engines pass on
_SCRIPT = f"""
grep -E '^ *nameserver ' "$ROOT/etc/resolv.conf" 2>/dev/null | say server
env | grep -iE '^(https?|all)_proxy=.' | say proxy
limit=; if command -v timeout >/dev/null; then limit='timeout -k 1 3'; fi
$limit getent hosts {_A_HOST} >/dev/null 2>&1
echo $? | say code
"""


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    servers = [words[1] for line in found.all("server") if len(words := line.split()) > 1]
    subject = f"host.dns={', '.join(servers) or 'none'}"
    yield info("dns", subject)
    if found.one("code") != "0" and not found.one("proxy"):
        yield warning(
            "dns.resolve", subject, f"the name {_A_HOST} cannot be looked up: downloads fail, locked inputs that are "
            "in the store do not need it", "check /etc/resolv.conf and the network: `getent hosts github.com`",
        )  # fmt: skip
    if servers and all(_on_loopback(server) and server != _STUB for server in servers):
        reason = "all resolvers are on the host's loopback: containers get public ones, which a closed network blocks"
        remedy = 'name a resolver that containers can reach: "dns": ["ADDRESS"] in /etc/docker/daemon.json'
        yield warning("dns.loopback", subject, reason, remedy)


def _on_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return False
