"""The addresses that each kind of input has at the user's mirrors and at the public's: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reprokit.config import archives
from reprokit.config.templates import file_fields, fill, git_fields, split_archive
from reprokit.redact import redact
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store

# Where conda itself looks for channels that are named without an address.
PUBLIC_CHANNEL = "https://conda.anaconda.org/{channel}"
_DEFAULTS = ("main", "r", "free")
_SEEN = "archives"
_MOST_SEEN = 4
_PUBLIC_DEFAULTS = "https://repo.anaconda.com/pkgs/{channel}"


def apt_urls(mirrors: Iterable[str], own: Iterable[str], remembered: Iterable[str], want: LockedInput) -> Iterator[str]:
    """Addresses of a file of an apt archive.

    `own` are the archive's addresses in the host's apt sources, `remembered` those that resolutions found it at.
    """
    archive = want.fields["archive"]
    for mirror in mirrors:
        only, template = split_archive(mirror)
        if only in ("", archive):
            yield from _filled(template, want.fields)
    for base in own:
        yield from _filled(base + "/{path}", want.fields)
    yield from want.urls
    for base in remembered:
        yield from _filled(base + "/{path}", want.fields)
    for place in archives.public_places(archive):
        yield from _filled(place, want.fields)


def file_urls(mirrors: Iterable[str], want: LockedInput) -> Iterator[str]:
    """Addresses of a plain file: each mirror for each of the file's own addresses, then those themselves."""
    fields = {"name": want.name, "sha256": want.sha256}
    for mirror in mirrors:
        for place in file_fields(want.urls):
            yield from _filled(mirror, {**fields, **place})
    yield from want.urls


def channel_urls(mirrors: Iterable[str], channel: str) -> list[str]:
    """Addresses of a conda channel, below which are its subdirs."""
    public = _PUBLIC_DEFAULTS if channel in _DEFAULTS else PUBLIC_CHANNEL
    return [url for place in (*mirrors, public) for url in _filled(place, {"channel": channel})]


def conda_urls(mirrors: Iterable[str], want: LockedInput) -> Iterator[str]:
    """Addresses of a conda package."""
    for channel in channel_urls(mirrors, want.fields["channel"]):
        yield from _filled(channel.rstrip("/") + "/{subdir}/{file}", want.fields)


def git_urls(mirrors: Iterable[str], url: str) -> Iterator[str]:
    """Addresses of a git repository, its own last."""
    for mirror in mirrors:
        yield from _filled(mirror, git_fields(url))
    yield url


def _filled(template: str, fields: Mapping[str, str]) -> Iterator[str]:
    found = fill(template, fields)
    if found:
        yield found


def remember_archive(store: Store, archive: str, base_url: str) -> None:
    """Keep where a resolution on this machine found an archive (`http://HOST/debian`), without credentials."""
    base = redact(base_url).rstrip("/")
    known = remembered(store, archive)
    if known[:1] != (base,):
        store.remember(_SEEN, archive, [base, *(other for other in known if other != base)][:_MOST_SEEN])


def remembered(store: Store, archive: str) -> tuple[str, ...]:
    """The addresses that resolutions on this machine found this archive at, the latest first."""
    return tuple(store.remembered(_SEEN, archive) or ())
