"""The addresses of files, commits and channels of locks, in the order to try."""

from __future__ import annotations

import re
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

from reprokit.config import Configuration, load
from reprokit.config.archives import archive_of, public_places
from reprokit.config.templates import filled, git_fields, split_archive
from reprokit.supply.fetch.http import Client, Settings, environment_proxy
from reprokit.supply.hosts import FailingHosts
from reprokit.supply.kinds import kind_of
from reprokit.supply.kinds.apt import settings as aptsettings
from reprokit.supply.kinds.apt.settings import AptSettings, remembered
from reprokit.supply.kinds.conda import channel_urls
from reprokit.supply.kinds.wheels import pip as pip_module
from reprokit.supply.kinds.wheels.index import WheelIndex, is_folder_of_files, is_page, read_page
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own

# Errors of one file. The host works.
_OF_THE_FILE = re.compile(
    r"HTTP (?!408|425|429)4\d\d|the file has \d+ bytes|other bytes"
    r"|.*(not found|does not exist|not appear to be a git|Authentication failed|could not read Username"
    r"|not our ref|couldn't find remote ref|unadvertised object|not allowed)"
)


class Mirrors:
    """The user's mirrors, then the settings of the host's own tools, then public addresses: `Addresses` of downloads.

    Hosts in back-off after failures come last. Threads may share one.
    """

    def __init__(
        self,
        store: Store,
        configuration: Configuration | None = None,
        indexes: Sequence[str] = (),
        pip: PipSettings | None = None,
        apt: AptSettings | None = None,
    ) -> None:
        """`indexes` are those of recipes, which come after the user's. Other settings are read from the host if needed.

        Raises UsageError for errors in the user's configuration.
        """
        self.configuration = configuration if configuration is not None else load()
        self.store, self._indexes, self._given_pip, self._given_apt = store, tuple(indexes), pip, apt
        self._failing_hosts = FailingHosts(store)
        self._wheel_index: WheelIndex | None = None
        self._lock = threading.Lock()

    @cached_property
    def pip(self) -> PipSettings:
        """The user's pip configuration, preceded by the user's mirrors of wheels."""
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
        return self._given_pip if self._given_pip is not None else pip_module.read_settings()

    @cached_property
    def apt(self) -> AptSettings:
        """The host's apt configuration."""
        return self._given_apt if self._given_apt is not None else aptsettings.read_settings()

    def urls(self, locked: LockedInput) -> Iterator[str]:
        """Addresses of a file, looked up only as far as the caller reads."""
        addresses = kind_of(locked.kind).locations(locked, self)
        return iter(addresses) if locked.kind == "wheels" else iter(self._failing_hosts.order(addresses))

    def report(self, url: str, error: str | None) -> None:
        """Record why a request to this address failed, or with None that it worked."""
        if error is None or not _OF_THE_FILE.match(error):
            index = self._wheel_index.index_of(url) if self._wheel_index else None
            self._failing_hosts.report(index or url, error)

    def silent(self, locked: LockedInput) -> Mapping[str, str]:
        """Indexes that did not answer for the file, and the error of each."""
        return dict(self.wheel_index.failures) if locked.kind == "wheels" else {}

    @cached_property
    def own(self) -> Own:
        """The hosts and folders that the configurations of the user, of pip and of apt name."""
        configured = self.configuration
        addresses = [split_archive(entry.value)[1] for entry in configured.entries]
        pip = self.own_pip
        # A simple index in a folder often has its files beside it (`simple/`, `files/`).
        beside = [f"{index.rstrip('/')}/.." for index in pip.indexes if re.match(r"file:///[^/]+/[^/]", index)]
        addresses += [*configured.hosts, *pip.indexes, *beside, *pip.find_links, *self.apt.mirrors.values()]
        return Own.of(addresses)

    @cached_property
    def settings(self) -> Settings:
        """Limits, certificates and proxies of downloads, from the environment, pip and apt."""
        fetch = self.configuration.fetch
        return Settings(
            parallel=fetch.parallel,
            stall_s=fetch.stall,
            slow_rate=fetch.slowest,
            ca_file=self.pip.cert or None,
            client_cert=self.pip.client_cert or None,
            trusted_hosts=frozenset(self.pip.trusted_hosts),
            own=self.own,
            proxy=self._proxy,
            lost=self.store.lost,
        )

    def git(self, url: str) -> list[str]:
        """Addresses of the repository at this `https://` address: mirrors (bare repositories as `file://`), itself."""
        return self._failing_hosts.order([*filled(self.configuration.of("git"), git_fields(url)), url])

    def channels(self, channel: str) -> list[str]:
        """Addresses of a conda channel."""
        return self._failing_hosts.order(channel_urls(self.configuration.of("conda"), channel))

    def seen(self, archive: str) -> tuple[str, ...]:
        """The addresses of an apt archive that `lock` used."""
        return remembered(self.store, archive)

    def archive(self, url: str, hosts: Container[str] = ()) -> list[str]:
        """The mirrors to ask before this address of a file of a distribution's archive, without those in back-off.

        There are none for addresses at other hosts than the archive's public ones and `hosts`: the folder of another
        vendor may have the distribution's name.
        """
        name_and_path = archive_of(url)
        if name_and_path is None:
            return []
        name, path = name_and_path
        archive_hosts = {urlsplit(address).hostname for address in (*public_places(name), *self.seen(name))}
        host = urlsplit(url).hostname or ""
        if host not in hosts and host not in archive_hosts:
            return []
        locked = LockedInput("apt", url, "", 0, {"archive": name, "path": path}, (url,))
        order = [address for address in self.urls(locked) if not address.startswith("file:")]
        return order[: order.index(url)]

    @property
    def wheel_index(self) -> WheelIndex:
        """The user's and the recipes' indexes; one for all threads, as it caches pages."""
        with self._lock:
            if self._wheel_index is None:
                own = self.own_pip
                sources = (*self.configuration.of("wheels"), *own.find_links, *own.indexes, *self._indexes)
                self._wheel_index = WheelIndex(tuple(dict.fromkeys(sources)), self._failing_hosts, self._read_page)
            return self._wheel_index

    def _read_page(self, url: str) -> tuple[bytes, str]:
        return read_page(self._client, url)

    @cached_property
    def _client(self) -> Client:
        return Client(self.settings)

    def _proxy(self, address: SplitResult) -> SplitResult | None:
        if self.pip.proxy and self.wheel_index.serves(address):
            return _address(self.pip.proxy)
        return self.proxy(address)

    def proxy(self, address: SplitResult) -> SplitResult | None:
        """The proxy of the environment; for addresses of apt archives, the proxy of the host's apt."""
        proxy = environment_proxy(address)
        if proxy is None and address.scheme == "http" and re.search(r"/(dists|pool)/", address.path):
            of_apt = self.apt.proxy(address.hostname or "")
            return _address(of_apt) if of_apt else None
        return proxy


def _address(proxy: str) -> SplitResult:
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")
