"""The settings in force and the source of each, as `reprokit config` shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from reprokit import paths
from reprokit.config import KINDS, Fetch
from reprokit.config.archives import archives, public_places
from reprokit.config.templates import split_archive
from reprokit.redact import redact
from reprokit.supply.kinds.conda import PUBLIC_CHANNEL
from reprokit.supply.mirrors.places import Mirrors

PUBLIC = "public"
WAYS = ("proxy", "certificates", "hosts", "fetch")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True)
class Line:
    """`value` may hold credentials: show `redacted`. `archive` is set for an apt mirror of one archive."""

    kind: str
    value: str = field(repr=False)
    source: str
    archive: str = ""

    @property
    def redacted(self) -> str:
        return redact(self.value)

    @property
    def shown(self) -> str:
        return f"{self.archive}: {self.redacted}" if self.archive else self.redacted


def lines(mirrors: Mirrors) -> list[Line]:
    """All addresses by kind, in the order to try, then proxies, certificates, hosts and limits.

    Addresses of recipes and locks are excluded.
    """
    found = [*_configured(mirrors), *_own(mirrors), *_public(mirrors)]
    return [*sorted(found, key=lambda line: KINDS.index(line.kind)), *_ways(mirrors)]


def _configured(mirrors: Mirrors) -> Iterator[Line]:
    for entry in mirrors.configuration.entries:
        archive, value = split_archive(entry.value) if entry.kind == "apt" else ("", entry.value)
        yield Line(entry.kind, value, entry.source, archive)


def _own(mirrors: Mirrors) -> Iterator[Line]:
    for archive, base in mirrors.apt.mirrors.items():
        yield Line("apt", base + "/{path}", "apt", archive)
    for source in (*mirrors.own_pip.find_links, *mirrors.own_pip.indexes):
        yield Line("wheels", source, "pip")


def _public(mirrors: Mirrors) -> Iterator[Line]:
    for archive in archives():
        for base in mirrors.seen(archive):
            yield Line("apt", base + "/{path}", "seen by `reprokit lock`", archive)
        for place in public_places(archive):
            yield Line("apt", place, PUBLIC, archive)
    yield Line("conda", PUBLIC_CHANNEL, PUBLIC)


def _ways(mirrors: Mirrors) -> Iterator[Line]:
    for name in _PROXIES:
        for variable in (name, name.upper()):
            if os.environ.get(variable):
                yield Line("proxy", _with_scheme(os.environ[variable], name), f"${variable}")
    if mirrors.own_pip.proxy:
        yield Line("proxy", _with_scheme(mirrors.own_pip.proxy), "pip, for wheels")
    for host, proxy in mirrors.apt.proxies.items():
        yield Line("proxy", proxy, f"apt, for {host or 'packages'}")
    if mirrors.own_pip.cert:
        yield Line("certificates", mirrors.own_pip.cert, "pip")
    for host in mirrors.configuration.hosts:
        yield Line("hosts", host, str(paths.config_file()))
    fetch = mirrors.configuration.fetch
    text = f"{fetch.parallel} at once, {fetch.stall:g} s without a byte at most, {fetch.slowest} bytes/s at least"
    yield Line("fetch", text, "default" if fetch == Fetch() else str(paths.config_file()))


def _with_scheme(proxy: str, variable: str = "") -> str:
    """As an address, so that `redact` finds credentials."""
    return proxy if "://" in proxy or variable == "no_proxy" else f"http://{proxy}"
