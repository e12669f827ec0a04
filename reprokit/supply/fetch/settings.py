"""How downloads reach others, and how long they bear with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from reprokit.supply.serve.forward import host_proxy
from reprokit.untrusted.addresses import Own


def environment_proxy(address: SplitResult) -> SplitResult | None:
    """The proxy that `http_proxy`, `https_proxy` and `no_proxy` name for this address."""
    return host_proxy(address.scheme, address.hostname or "")


@dataclass(frozen=True)
class Settings:
    """Times in seconds, rates in bytes a second. The defaults bear a bad line and leave a dead server."""

    connect_s: float = 10
    stall_s: float = 30  # no byte for so long
    slow_rate: float = 4096  # less than that over the whole window: field notes tell of 28 MB in two hours
    slow_window_s: float = 60
    attempts: int = 4  # rounds through all addresses that bring nothing new
    backoff_s: float = 1  # before the second round, doubled before each further one
    longest_wait_s: float = 120  # at most, whatever Retry-After asks for
    ca_file: str | None = None  # else SSL_CERT_FILE and its kin, else the system's
    client_cert: str | None = None
    trusted_hosts: frozenset[str] = field(default_factory=frozenset)  # certificates unchecked, as pip's trusted-host
    own: Own = field(default_factory=Own)  # where credentials may go, and what need not be public
    proxy: Callable[[SplitResult], SplitResult | None] = environment_proxy
