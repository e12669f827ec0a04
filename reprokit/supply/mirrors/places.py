"""Where the files, commits, channels and images of locks may be had, in the order to try."""

from __future__ import annotations

import re
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

from reprokit.config import Configuration, load
from reprokit.config.archives import archive_of, public_places
from reprokit.config.templates import split_archive
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings, environment_proxy
from reprokit.supply.kinds.apt import settings as aptsettings
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.wheels import pipsettings
from reprokit.supply.kinds.wheels.index import WheelPlaces
from reprokit.supply.kinds.wheels.lookup import is_folder_of_files, is_page
from reprokit.supply.kinds.wheels.pipsettings import PipSettings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.mirrors import kinds
from reprokit.supply.mirrors.kinds import remembered
from reprokit.supply.mirrors.rest import Rest
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own

# The place works, and has not this file.
_NOT_AT_FAULT = re.compile(
    r"HTTP (?!408|425|429)4\d\d|the file has \d+ bytes|other bytes"
    r"|.*(not found|does not exist|not appear to be a git|Authentication failed|could not read Username"
    r"|not our ref|couldn't find remote ref|unadvertised object|not allowed)"
)


class Mirrors:
    """The user's mirrors, what the host's own tools are told, and the public's places (a `fetch.places.Places`).

    In that order, except that hosts which failed rest. Threads may share one.
    """

    def __init__(
        self,
        store: Store,
        configuration: Configuration | None = None,
        indexes: Sequence[str] = (),
        pip: PipSettings | None = None,
        apt: AptSettings | None = None,
    ) -> None:
        """`indexes` are those of recipes, asked after the user's. What is not given is read from the host when needed.

        Raises UsageError where the user's configuration is wrong.
        """
        self.configuration = configuration if configuration is not None else load()
        self._store, self._indexes, self._given_pip, self._given_apt = store, tuple(indexes), pip, apt
        self._rest = Rest(store)
        self._wheel_places: WheelPlaces | None = None
        self._lock = threading.Lock()

    @cached_property
    def pip(self) -> PipSettings:
        """The user's own pip configuration, the user's mirrors of wheels in front of it."""
        mirrors = [source for source in self.configuration.of("wheels") if "{" not in source]
        links = [source for source in mirrors if is_page(source) or is_folder_of_files(source)]
        indexes = [source for source in mirrors if source not in links]
        return replace(
            self.own_pip,
            find_links=(*links, *self.own_pip.find_links),
            extra_indexes=(*indexes, *self.own_pip.extra_indexes),
        )

    @cached_property
    def own_pip(self) -> PipSettings:
        return self._given_pip if self._given_pip is not None else pipsettings.read_settings()

    @cached_property
    def apt(self) -> AptSettings:
        """The host's own apt configuration."""
        return self._given_apt if self._given_apt is not None else aptsettings.read_settings()

    def urls(self, want: LockedInput) -> Iterator[str]:
        """Addresses of a file. Wheels are looked up on one index after the other, as far as the caller goes."""
        if want.kind == "wheels":
            return self._wheels.urls(want)
        if want.kind == "apt":
            return iter(self._apt_urls(want))
        mirrors = self.configuration.of(want.kind)
        found = kinds.conda_urls(mirrors, want) if want.kind == "conda" else kinds.file_urls(mirrors, want)
        return iter(self._rest.order(found))

    def report(self, url: str, error: str | None) -> None:
        """Record why a request to this address failed, or with None that it worked."""
        if error is None or not _NOT_AT_FAULT.match(error):
            index = self._wheel_places.index_of(url) if self._wheel_places else None
            self._rest.report(index or url, error)

    def silent(self, want: LockedInput) -> Mapping[str, str]:
        """Indexes that could not be asked for the file, and why."""
        return dict(self._wheels.failures) if want.kind == "wheels" else {}

    @cached_property
    def own(self) -> Own:
        """What the user's configuration, pip's and apt's name."""
        configured = self.configuration
        places = [split_archive(entry.value)[1] for entry in configured.entries]
        pip = self.own_pip
        # A simple index in a folder often has its files beside it (`simple/`, `files/`).
        beside = [f"{index.rstrip('/')}/.." for index in pip.indexes if re.match(r"file:///[^/]+/[^/]", index)]
        places += [*configured.hosts, *pip.indexes, *beside, *pip.find_links, *self.apt.mirrors.values()]
        return Own.of(places)

    @cached_property
    def settings(self) -> Settings:
        """How downloads reach these places: certificates and proxies of the environment, of pip, of apt."""
        fetch = self.configuration.fetch
        return Settings(
            stall_s=fetch.stall,
            slow_rate=fetch.slowest,
            ca_file=self.pip.cert or None,
            client_cert=self.pip.client_cert or None,
            trusted_hosts=frozenset(self.pip.trusted_hosts),
            own=self.own,
            proxy=self._proxy,
        )

    def git(self, url: str) -> list[str]:
        """Addresses of the repository at this `https://` address: mirrors (bare repositories as `file://`), itself."""
        return self._rest.order(kinds.git_urls(self.configuration.of("git"), url))

    def guarded(self) -> AbstractContextManager[dict[str, str]]:
        """The variables of a program that asks a stranger's addresses, see `guard.guarded`."""
        from reprokit.supply.guard import guarded  # its gateway has mirrors itself

        return guarded(self._store, self.own)

    def reach(self, address: str) -> AbstractContextManager[Mapping[str, str] | None]:
        """The environment of a git that talks to this address, see `guard.git_environment`."""
        from reprokit.supply.guard import git_environment

        return git_environment(address, self._store, lambda: self.own)

    def channels(self, channel: str) -> list[str]:
        """Addresses of a conda channel."""
        return self._rest.order(kinds.channel_urls(self.configuration.of("conda"), channel))

    def archive(self, url: str, hosts: Container[str] = ()) -> list[str]:
        """Where a file of a distribution's archive that is asked for at this address is asked for first.

        None are known for an address at another host than the archive's own public ones and `hosts`: a vendor's folder
        may have the distribution's name. Hosts that are dead are left out.
        """
        found = archive_of(url)
        if found is None or not self._is_public(urlsplit(url).hostname or "", found[0], hosts):
            return []
        want = LockedInput("apt", url, "", 0, {"archive": found[0], "path": found[1]}, (url,))
        mirrors = kinds.apt_urls(self.configuration.of("apt"), self._own(found[0]), (), want)
        order = self._rest.order(place for place in mirrors if not place.startswith("file:"))
        return order[: order.index(url)]

    def _is_public(self, host: str, archive: str, hosts: Container[str]) -> bool:
        known = (*public_places(archive), *remembered(self._store, archive))
        return host in hosts or host in {urlsplit(place).hostname for place in known}

    def _apt_urls(self, want: LockedInput) -> list[str]:
        archive = want.fields["archive"]
        mirrors = self.configuration.of("apt")
        return self._rest.order(kinds.apt_urls(mirrors, self._own(archive), remembered(self._store, archive), want))

    def _own(self, archive: str) -> list[str]:
        return [self.apt.mirrors[archive]] if archive in self.apt.mirrors else []

    @property
    def _wheels(self) -> WheelPlaces:
        with self._lock:  # one for all threads: it remembers what it was told
            if self._wheel_places is None:
                own = self.own_pip
                sources = (*self.configuration.of("wheels"), *own.find_links, *own.indexes, *self._indexes)
                distinct = tuple(dict.fromkeys(sources))
                self._wheel_places = WheelPlaces(distinct, self._rest, lambda: Client(self.settings))
            return self._wheel_places

    def _proxy(self, address: SplitResult) -> SplitResult | None:
        if self.pip.proxy and self._wheels.serves(address):
            return _address(self.pip.proxy)
        found = environment_proxy(address)
        if found is None and address.scheme == "http" and re.search(r"/(dists|pool)/", address.path):
            own = self.apt.proxy(address.hostname or "")
            return _address(own) if own else None
        return found


def _address(proxy: str) -> SplitResult:
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")
