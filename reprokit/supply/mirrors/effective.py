"""The settings in force and the source of each, as `reprokit config` shows them; `--check` asks each mirror once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from reprokit import paths
from reprokit.config import KINDS, Fetch
from reprokit.config.archives import archives, probe_path, public_places
from reprokit.config.templates import fill, split_archive
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client, Refusal
from reprokit.supply.kinds.conda import PUBLIC_CHANNEL
from reprokit.supply.kinds.wheels.index import is_page, path_of
from reprokit.supply.mirrors import Mirrors

_AT_ONCE = 8
_MOST_BYTES = 1 << 20
_MOST_S = 5
_A_HOST = "github.com"
_ENOUGH_BYTES = 1 << 16  # measured to compute the download rate
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
    addresses = [*_configured(mirrors), *_own(mirrors), *_public(mirrors)]
    return [*sorted(addresses, key=lambda line: KINDS.index(line.kind)), *_ways(mirrors)]


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
        for address in public_places(archive):
            yield Line("apt", address, PUBLIC, archive)
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


@dataclass(frozen=True)
class MirrorAnswer:
    """`latency_s` is the time to the answer's headers, `rate` in bytes/s if enough arrived, `error` why none came."""

    line: Line
    latency_s: float | None = None
    rate: float | None = None
    error: str = ""

    @property
    def in_words(self) -> str:
        """`answers in 20 ms, 3.1 MB/s`, or the error."""
        if self.error:
            return self.error
        if self.latency_s is None:
            return "there"
        rate = f", {self.rate / 1e6:.1f} MB/s" if self.rate else ""
        return f"answers in {self.latency_s * 1e3:.0f} ms{rate}"


def ask_each(lines: Sequence[Line], client: Client) -> list[MirrorAnswer]:
    """The answers in the order of the lines, from several mirrors at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda line: ask(line, client), lines))


def silent_kinds(answers: Sequence[MirrorAnswer]) -> list[str]:
    """The kinds of which every mirror failed."""
    names = dict.fromkeys(answer.line.kind for answer in answers)
    return [kind for kind in names if all(a.error for a in answers if a.line.kind == kind)]


def address_of(line: Line) -> str:
    """The address that `config --check` requests: a file that each mirror of the kind has, else the host's front page.

    For a local folder it is the path before the first placeholder.
    """
    fixed = line.value.partition("{")[0]
    if fixed.startswith("file:"):
        return fixed
    if line.kind == "registry":
        host = line.value.partition("/")[0]
        plain = host.partition(":")[0] in ("localhost", "127.0.0.1")  # as the engine asks
        return f"{'http' if plain else 'https'}://{host}/v2/"
    if line.kind == "apt":
        archive = line.archive or "debian"
        fields = {"archive": archive, "path": probe_path(archive), "as_of": ""}
        return fill(line.value, fields) or _front(line.value)
    if line.kind == "conda":
        return (fill(line.value, {"channel": "conda-forge"}) or line.value).rstrip("/") + "/noarch/repodata.json"
    if line.kind == "wheels" and fixed == line.value:
        return line.value if is_page(line.value) else f"{line.value.rstrip('/')}/pip/"
    return _front(line.value)


def _front(template: str) -> str:
    address = urlsplit(template.replace("{host}", _A_HOST))
    return f"{address.scheme}://{address.netloc}/"


def ask(line: Line, client: Client) -> MirrorAnswer:
    """Ask one mirror; stop reading a few seconds after the start."""
    url = address_of(line)
    if url.startswith("file:"):
        return MirrorAnswer(line, error="" if path_of(url).exists() else "no such file or folder")
    began = time.monotonic()
    try:
        with client.ask(url) as answer:
            latency = time.monotonic() - began
            # A 403 or 404 still proves that the server is up.
            if answer.status >= 500 or (answer.status in (403, 404, 410) and line.kind in ("apt", "conda")):
                return MirrorAnswer(line, latency, error=f"HTTP {answer.status}")
            count = 0
            while (block := answer.read()) and count < _MOST_BYTES and time.monotonic() - began < _MOST_S:
                count += len(block)
    except Refusal as refusal:
        return MirrorAnswer(line, error=refusal.why)
    seconds = time.monotonic() - began - latency
    return MirrorAnswer(line, latency, count / seconds if count >= _ENOUGH_BYTES and seconds else None)
