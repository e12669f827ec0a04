"""Whom a build may ask beyond what the gateway serves, and what it asked for."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit

from reprokit.formatting import size
from reprokit.redact import redact
from reprokit.untrusted.limits import GATEWAY_NAME, GATEWAY_NAMES

# Asked with method and name (a host, or the host:port of a CONNECT) before anything is passed on; says why a request
# is refused, or None.
Policy = Callable[[str, str], "str | None"]


def pass_all(method: str, name: str) -> str | None:
    """The policy of a build without a lock: everything is passed and recorded."""
    return None


def locked(target: str) -> Policy:
    """The policy of a build of `target` (`NAME:VARIANT`) from its lock: all that is asked for beyond it is refused."""

    def refuse(method: str, name: str) -> str | None:
        return f"undeclared download: {name.removesuffix(':443')} is not in the lock of {target}"

    return refuse


@dataclass(frozen=True)
class Download:
    """A file that a build got beyond its lock; size in bytes and sha256 where they were seen."""

    url: str
    size: int | None = None
    sha256: str = ""


class Recorder:
    """What plain HTTP carried past the gateway, for `build --record`. CONNECT is bytes that nobody can read."""

    def __init__(self) -> None:
        self._downloads: dict[str, Download] = {}
        self._origins: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def downloads(self) -> list[Download]:
        """In the order of their arrival, each once, by the address that the build asked first."""
        return list(self._downloads.values())

    def redirected(self, url: str, location: str) -> None:
        """An answer that sends the build from `url` to `location`, which the recipe need not know."""
        target = urljoin(url, location)
        with self._lock:
            if len(self._origins) < GATEWAY_NAMES and len(target) <= GATEWAY_NAME:
                self._origins[target] = self._origins.get(url, url)
        if target.startswith("https:"):
            self._keep(Download(redact(self._origins.get(target, target))))

    def passing(self, url: str) -> Passing:
        """To be fed with a body as it passes."""
        return Passing(url, self)

    def arrived(self, url: str, size: int, sha256: str) -> None:
        self._keep(Download(redact(self._origins.get(url, url)), size, sha256))

    def _keep(self, download: Download) -> None:
        with self._lock:
            if len(self._downloads) < GATEWAY_NAMES and len(download.url) <= GATEWAY_NAME:
                self._downloads[download.url] = download


class Passing:
    """A body on its way, counted and hashed."""

    def __init__(self, url: str, recorder: Recorder) -> None:
        self.url, self.recorder = url, recorder
        self.size, self.digest = 0, hashlib.sha256()

    def feed(self, block: bytes) -> None:
        self.size += len(block)
        self.digest.update(block)

    def end(self) -> None:
        """The body was whole."""
        self.recorder.arrived(self.url, self.size, self.digest.hexdigest())


def recipe_lines(downloads: Iterable[Download], hosts: Iterable[str], missing: Iterable[str]) -> list[str]:
    """What a recipe would have to say so that its lock covers this.

    `hosts` are the names that were asked (those with a port by CONNECT), `missing` what was asked of the gateway's own
    servers in vain. Where files shall lie is not known: they are written below /opt.
    """
    archive = [d for d in downloads if re.search(r"/(dists|pool)/", urlsplit(d.url).path)]
    packages = {_name(d.url).partition("_")[0] for d in archive if d.url.endswith(".deb")}
    files = [d for d in downloads if d not in archive]
    lines = [f"apt: [{', '.join(sorted(packages))}]"] if packages else []
    lines += ["files:", *(_file(file) for file in files)] if files else []
    tunnels = sorted(host.removesuffix(":443") for host in hosts if ":" in host)
    if tunnels:
        lines.append(
            "# over TLS, which cannot be read here: `files` with an https:// address, or `sources` where it was git"
        )
        lines += [f"#   {host}" for host in tunnels]
    return [*lines, *(f"# asked of reprokit in vain: {name}" for name in sorted(missing))]


def _file(file: Download) -> str:
    name = _name(file.url)
    known = f', sha256: "{file.sha256}"' if file.sha256 else ""
    about = "" if file.size is None else f"  # {size(file.size)}"
    return f'  - {{name: {name}, urls: ["{file.url}"]{known}, path: /opt/{name}}}{about}'


def _name(url: str) -> str:
    """The last part of the address, as `files` may call it."""
    last = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._+-]", "_", last).lstrip(".+-") or "file"
