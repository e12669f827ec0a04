"""Which other hosts a build may reach through its gateway, and a record of its downloads."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit

from reprokit.formatting import size
from reprokit.redact import redact
from reprokit.untrusted.limits import GATEWAY_NAME, GATEWAY_NAMES

# Called with method and name (a host, or the host:port of a CONNECT) before a request is passed on; returns why it is
# refused, or None.
Policy = Callable[[str, str], "str | None"]


def pass_all(method: str, name: str) -> str | None:
    """The policy of a build without a lock: pass everything on, and record it."""
    return None


def locked(target: str) -> Policy:
    """The policy of a build of `target` (`NAME:VARIANT`) from its lock: refuse everything else."""

    def refuse(method: str, name: str) -> str | None:
        return f"undeclared download: {name.removesuffix(':443')} is not in the lock of {target}"

    return refuse


@dataclass(frozen=True)
class RecordedDownload:
    """A file that a build downloaded outside its lock; size in bytes and sha256 if they are known."""

    url: str
    size: int | None = None
    sha256: str = ""


class Recorder:
    """Downloads over plain HTTP, for `build --record`. The content of CONNECT is encrypted."""

    def __init__(self) -> None:
        self._downloads: dict[str, RecordedDownload] = {}
        self._origins: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def downloads(self) -> list[RecordedDownload]:
        """In the order of arrival, each once, by the address that the build requested first."""
        return list(self._downloads.values())

    def redirected(self, url: str, location: str) -> None:
        """Record a redirect from `url` to `location`, so that the recipe needs only `url`."""
        target = urljoin(url, location)
        with self._lock:
            if len(self._origins) < GATEWAY_NAMES and len(target) <= GATEWAY_NAME:
                self._origins[target] = self._origins.get(url, url)
        if target.startswith("https:"):
            self._keep(RecordedDownload(redact(self._origins.get(target, target))))

    def arrived(self, url: str, size: int, sha256: str) -> None:
        """Record a complete body."""
        self._keep(RecordedDownload(redact(self._origins.get(url, url)), size, sha256))

    def _keep(self, download: RecordedDownload) -> None:
        with self._lock:
            if len(self._downloads) < GATEWAY_NAMES and len(download.url) <= GATEWAY_NAME:
                self._downloads[download.url] = download


def recipe_lines(downloads: Iterable[RecordedDownload], hosts: Iterable[str], missing: Iterable[str]) -> list[str]:
    """The lines of a recipe whose lock would cover these downloads.

    `hosts` are the requested names (with a port for CONNECT), `missing` are inputs that the gateway lacked. The target
    paths of files are unknown: /opt is written for them.
    """
    archive = [d for d in downloads if re.search(r"/(dists|pool)/", urlsplit(d.url).path)]
    packages = {_name(d.url).partition("_")[0] for d in archive if d.url.endswith(".deb")}
    files = [d for d in downloads if d not in archive]
    lines = [f"apt: [{', '.join(sorted(packages))}]"] if packages else []
    lines += ["files:", *(_file(file) for file in files)] if files else []
    tunnels = sorted(host.removesuffix(":443") for host in hosts if ":" in host)
    if tunnels:
        lines.append("# over TLS, so unknown: `files` with an https:// address, or `sources` for git")
        lines += [f"#   {host}" for host in tunnels]
    return [*lines, *(f"# requested and not locked: {name}" for name in sorted(missing))]


def _file(file: RecordedDownload) -> str:
    name = _name(file.url)
    known = f', sha256: "{file.sha256}"' if file.sha256 else ""
    about = "" if file.size is None else f"  # {size(file.size)}"
    return f'  - {{name: {name}, urls: ["{file.url}"]{known}, path: /opt/{name}}}{about}'


def _name(url: str) -> str:
    """The last part of the address, as a valid name of `files`."""
    last = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._+-]", "_", last).lstrip(".+-") or "file"
