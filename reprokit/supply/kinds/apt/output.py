"""Parsers of apt's output, which is the same from apt 1.6 (Ubuntu 18.04) to 3.0 (Debian 13)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, urlsplit

from reprokit.config.archives import archive_of
from reprokit.redact import redact
from reprokit.supply.kinds.apt.settings import remember_archive
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store
from reprokit.untrusted.documents import understood

# The archive of packages that are locked with their address.
_UNNAMED = "other"
# apt-get --print-uris: 'ADDRESS' NAME_VERSION_ARCHITECTURE.deb SIZE SHA256:DIGEST
_URI = re.compile(r"^'(\S+)' ([^\s_]+)_([^\s_]+)_([^\s_]+)\.deb (\d+) SHA256:([0-9a-f]{64})$", re.MULTILINE)
# apt-cache madison: NAME | VERSION | ADDRESS SUITE/COMPONENT ARCHITECTURE Packages
_LISTED = re.compile(r"^ *(\S+) \| *(\S+) \| (\S+) (\S+)/[^/\s]+ \S+ Packages$", re.MULTILINE)
# grep -H ^Date: of the Release files, which are named after their address
_DATE = re.compile(r"^(?:.*/)?([^/\s]+)_(?:In)?Release:Date: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """A version of a package in a suite, and the name of the suite's package lists."""

    name: str
    version: str
    suite: str


def packages_of(text: str, store: Store) -> tuple[AptPackage, ...]:
    """The packages of `apt-get --print-uris` with Acquire::ForceHash=SHA256, each once, by name.

    Their archives are remembered in the store, for fetches on this machine.
    """
    found = {}
    for address, name, version, architecture, size, sha256 in _URI.findall(text):
        with understood("apt's output", name):
            address = unquote(address)
            archive, path = archive_of(address) or (_UNNAMED, urlsplit(address).path.lstrip("/"))
            if archive != _UNNAMED:
                remember_archive(store, archive, redact(address).removesuffix(path))
            found[sha256] = AptPackage(
                name=name,
                version=unquote(version),
                architecture=architecture,
                archive=archive,
                path=path,
                sha256=sha256,
                size=int(size),
                url=redact(address) if archive == _UNNAMED else None,
            )
    return in_order(found.values())


def in_order(packages: Iterable[AptPackage]) -> tuple[AptPackage, ...]:
    """Packages as a lock lists them."""
    return tuple(sorted(packages, key=lambda p: (p.name, p.version, p.architecture, p.sha256)))


def listed(text: str) -> tuple[Listed, ...]:
    """The lines of `apt-cache madison`: each package's newest version first."""
    return tuple(
        Listed(name, version, _list_name(f"{address.rstrip('/')}/dists/{suite}"))
        for name, version, address, suite in _LISTED.findall(text)
    )


def as_of(packages: Sequence[AptPackage], text: str) -> str:
    """The newest date of the suites that these packages need, as `20261121T101500Z`, or empty.

    If several suites have a package, the oldest one counts, so that later changes of the others change no lock.
    """
    dates = {suite: _date(date) for suite, date in _DATE.findall(text)}
    by_package: dict[tuple[str, str], list[datetime]] = {}
    for line in listed(text):
        if date := dates.get(line.suite):
            by_package.setdefault((line.name, line.version), []).append(date)
    needed = [min(by_package[key]) for p in packages if (key := (p.name, p.version)) in by_package]
    return f"{max(needed):%Y%m%dT%H%M%SZ}" if needed else ""


def _date(text: str) -> datetime:
    with understood("the date of a package list", text[:100]):
        return parsedate_to_datetime(text.strip()).astimezone(timezone.utc)


def _list_name(address: str) -> str:
    """apt's file name for an address (URItoFileName of its fileutl.cc)."""
    with understood("the address of a package list", address[:200]):
        place = urlsplit(address)
    quoted = re.sub(r"[\\|{}\[\]<>\"^~_=!@#$%&*]", lambda match: f"%{ord(match[0]):02x}", place.path)
    return (place.netloc.rpartition("@")[2] + quoted).replace("/", "_")
