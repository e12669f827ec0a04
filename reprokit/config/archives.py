"""The archives of apt by name: the archive of an address, and the public addresses of an archive's files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from reprokit.recipe.yaml import FastLoader


@cache
def _table() -> dict[str, Any]:
    return yaml.load(Path(__file__).with_name("archives.yaml").read_text(encoding="utf-8"), FastLoader)  # type: ignore[no-any-return]


def archives() -> tuple[str, ...]:
    """All names of archives."""
    return tuple(_table()["archives"])


def archive_of(url: str) -> tuple[str, str] | None:
    """The archive and path of a file that apt requests; None if the archive has no name.

    `http://any.host/pub/debian/pool/main/c/x.deb` is `("debian", "pool/main/c/x.deb")`, and so is the same file in a
    dated snapshot.
    """
    address = urlsplit(url)
    # apt writes `./` before the files of an archive without suites.
    path = re.sub(r"/(?:\./)+", "/", address.path)
    for name, archive in _table()["archives"].items():
        for place in archive.get("at", ()):
            host, _, folder = place.partition("/")
            prefix = f"/{folder}/" if folder else "/"
            if address.hostname == host and path.startswith(prefix):
                return name, path[len(prefix) :]
    if address.hostname in _table()["others"]:
        return None
    for name, archive in _table()["archives"].items():
        if "folder" in archive and (match := _pattern(archive["folder"], tuple(archive["pools"])).search(path)):
            return name, match["path"]
    return None


@cache
def _pattern(folder: str, pools: tuple[str, ...]) -> re.Pattern[str]:
    below = rf"pool/(?:{'|'.join(pools)})/.+|dists/(?!.*/pool/).+"
    return re.compile(rf"/{folder}/(?:\d{{8}}T\d{{6}}Z/)?(?P<path>{below})$")


def public_places(archive: str) -> tuple[str, ...]:
    """Templates of `{path}` and `{as_of}`, in the order to try; empty for an unknown archive."""
    return tuple(_table()["archives"].get(archive, {}).get("public", ()))


def probe_path(archive: str) -> str:
    """A file that every mirror of the archive has."""
    return str(_table()["archives"][archive]["probe"])
