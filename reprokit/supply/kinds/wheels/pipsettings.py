"""The user's own pip configuration: where it looks for wheels, and how it reaches that."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reprokit.supply.kinds.wheels import pip

# Later sections win. reprokit asks as `pip download` would.
_SECTIONS = ("global", "download", ":env:")
_TRUE = ("1", "true", "yes", "y", "on", "t")  # as pip reads a boolean


@dataclass(frozen=True)
class PipSettings:
    """All that decides where pip finds a file; paths are `file://` addresses here.

    `index` is empty where the user wants none (`no-index`); `own_index` says that it is pip's default, which no setting
    names. Addresses may hold credentials: show them through `redact` only.
    """

    index: str = field(default="", repr=False)
    own_index: bool = False
    extra_indexes: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = field(default="", repr=False)

    @property
    def indexes(self) -> tuple[str, ...]:
        """All simple indexes, in pip's order."""
        return (self.index, *self.extra_indexes) if self.index else self.extra_indexes


def read_settings() -> PipSettings:
    """What `pip config list` says: environment, user's, site's and global files, in pip's own order.

    Raises SourceError where this Python has no pip.
    """
    settings = settings_of(pip.configuration())
    return replace(settings, index=pip.default_index()) if settings.own_index else settings


def settings_of(listing: str) -> PipSettings:
    """`pip config list` as settings; `index` stays empty where no setting names one."""
    values: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listing.splitlines():
            key, equals, value = line.partition("=")
            if equals and key.rpartition(".")[0] == section:
                text = str(ast.literal_eval(value)).strip()
                if text:  # pip takes an empty setting for none
                    values[key.rpartition(".")[2]] = text
    no_index = values.get("no-index", "").lower() in _TRUE
    return PipSettings(
        index="" if no_index else _address(values.get("index-url", "")),
        own_index=not no_index and "index-url" not in values,
        extra_indexes=() if no_index else _addresses(values, "extra-index-url"),
        find_links=_addresses(values, "find-links"),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        cert=values.get("cert", ""),
        client_cert=values.get("client-cert", ""),
        proxy=values.get("proxy", ""),
    )


def _addresses(values: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(_address(text) for text in values.get(key, "").split())


def _address(text: str) -> str:
    """An address as it is, a path as `file://`."""
    if not text or "://" in text:
        return text
    return Path(text).expanduser().absolute().as_uri()
