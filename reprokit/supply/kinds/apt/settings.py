"""The mirrors and proxies of the host's own apt, and the addresses of archives that `lock` used.

Builds use them; the sources in images stay the distribution's public ones.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from reprokit.redact import redact
from reprokit.supply.store import Store

_APT = Path("/etc/apt")
_TIMEOUT_S = 5
_SEEN = "archives"
_MOST_SEEN = 4


@dataclass(frozen=True)
class AptSettings:
    """`mirrors` by the last folder of an archive's address (such as `debian-security`), `proxies` by host."""

    mirrors: dict[str, str] = field(default_factory=dict)
    proxies: dict[str, str] = field(default_factory=dict)

    def proxy(self, host: str) -> str | None:
        """apt's proxy for this host; apt writes `DIRECT` for none."""
        proxy = self.proxies.get(host, self.proxies.get(""))
        return None if proxy in (None, "", "DIRECT") else proxy


def read_settings(folder: Path = _APT) -> AptSettings:
    """The settings of this host, empty without apt."""
    texts = []
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if file.suffix in (".list", ".sources"):
            try:
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
            except OSError:
                continue
    try:
        command = ["apt-config", "dump", "Acquire::http::Proxy"]
        dump = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        dump = ""
    return AptSettings(mirrors_of(texts), proxies_of(dump))


def mirrors_of(texts: Iterable[str]) -> dict[str, str]:
    """The first mirror of each of the distributions' archives in apt's sources, of either format.

    Another vendor's archive may end in `debian` too (`/linux/debian`), but not under a host that serves `/debian`.
    """
    mirrors: dict[str, str] = {}
    for text in texts:
        lines = re.findall(r"^deb(?:-src)?\s+(?:\[[^]]*\]\s+)?(\S+)", text, re.MULTILINE)
        stanzas = [
            u
            for uris in re.findall(r"^URIs:(.*(?:\n[ \t].*)*)", text, re.MULTILINE | re.IGNORECASE)
            for u in uris.split()
        ]
        for uri in (*lines, *stanzas):
            path = urlsplit(uri).path.rstrip("/")
            folder = path.rpartition("/")[2]
            if uri.startswith(("http://", "https://")) and folder in (
                "debian",
                "debian-security",
                "ubuntu",
                "ubuntu-ports",
            ):
                mirrors.setdefault(folder, uri.rstrip("/"))
    return mirrors


def proxies_of(dump: str) -> dict[str, str]:
    """`apt-config dump Acquire::http::Proxy` as proxies by host; the general one has the empty name."""
    return dict(re.findall(r'^Acquire::http::Proxy(?:::(\S+))? "([^"]*)";', dump, re.MULTILINE))


def remember_archive(store: Store, archive: str, base_url: str) -> None:
    """Remember the address of an archive that `lock` used (`http://HOST/debian`), without credentials."""
    base = redact(base_url).rstrip("/")
    earlier = remembered(store, archive)
    if earlier[:1] != (base,):
        store.remember(_SEEN, archive, [base, *(other for other in earlier if other != base)][:_MOST_SEEN])


def remembered(store: Store, archive: str) -> tuple[str, ...]:
    """The remembered addresses of an archive, the latest first."""
    return tuple(store.remembered(_SEEN, archive) or ())
