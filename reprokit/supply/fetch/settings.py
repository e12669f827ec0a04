"""Limits, proxies and certificates of downloads."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from reprokit.supply.fetch.lost import LostHosts
from reprokit.untrusted.addresses import Own


def host_proxy(scheme: str, host: str) -> SplitResult | None:
    """The proxy that `http_proxy`, `https_proxy` and `no_proxy` name for this host."""
    proxies = urllib.request.getproxies()
    if scheme not in proxies or urllib.request.proxy_bypass(host):
        return None
    address = proxies[scheme]
    return urlsplit(address if "://" in address else f"http://{address}")


def environment_proxy(address: SplitResult) -> SplitResult | None:
    return host_proxy(address.scheme, address.hostname or "")


@dataclass(frozen=True)
class Settings:
    """Times in seconds, rates in bytes a second. The defaults tolerate a bad line and give up a dead server."""

    parallel: int = 6  # files at once
    connect_s: float = 10
    stall_s: float = 30  # without a byte
    slow_rate: float = 4096  # over the whole window; 28 MB in two hours have been seen
    slow_window_s: float = 60
    attempts: int = 4  # rounds through all addresses without progress
    backoff_s: float = 1  # before the second round, doubled before each further one
    longest_wait_s: float = 120  # upper limit of Retry-After
    ca_file: str | None = None  # else SSL_CERT_FILE and the like, else the system's
    client_cert: str | None = None
    trusted_hosts: frozenset[str] = field(default_factory=frozenset)  # without certificate checks, as in pip
    own: Own = field(default_factory=Own)  # hosts that get credentials and need not be public
    proxy: Callable[[SplitResult], SplitResult | None] = environment_proxy
    lost: LostHosts = field(default_factory=LostHosts)  # shared by all clients of a command
