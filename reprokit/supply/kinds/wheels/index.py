"""Addresses of wheels, looked up in the indexes of the user, of pip's configuration and of the recipe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from reprokit.config.templates import fill
from reprokit.errors import UsageError
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client, Refusal
from reprokit.supply.hosts import FailingHosts
from reprokit.supply.kinds.wheels.uv import with_credentials
from reprokit.supply.locked_input import LockedInput
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import Limit

_ATTEMPTS = 3
_PAUSE_S = 1.0  # before the second attempt, twice that before the third
_NOT_FOUND = (403, 404, 410)  # object stores answer 403 for missing files
PAGE = Limit("INDEX_PAGE", 64 << 20)  # the largest page of a public index has some 10 MB
# Weights of RFC 9110: JSON is a tenth of the size.
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class NoSuchPage(Exception):
    """The index has no such page."""


# Returns body and content type of an address. Raises NoSuchPage, or OSError if the server fails.
Get = Callable[[str], "tuple[bytes, str]"]


def read_page(client: Client, url: str) -> tuple[bytes, str]:
    """A `Get` that repeats failed requests."""
    attempt = 1
    while True:
        try:
            return client.read(url, {"Accept": ACCEPT}, PAGE, "bytes in a page of an index")
        except UsageError as error:
            raise OSError(error.message) from None
        except Refusal as refusal:
            if refusal.status in _NOT_FOUND:
                raise NoSuchPage(url) from None
            if not refusal.again or attempt == _ATTEMPTS or client.settings.lost.why(url):
                raise OSError(refusal.why) from None
        time.sleep(_PAUSE_S * attempt)
        attempt += 1


class WheelIndex:
    """Looks files up in `sources` in order. A source that fails gets no further request by this object.

    `sources` are simple indexes, pages of links, folders, or templates of single files. Pages are cached; threads may
    share it.
    """

    def __init__(self, sources: tuple[str, ...], failing_hosts: FailingHosts, get: Get) -> None:
        self.sources = sources
        self.failures: dict[str, str] = {}
        self._failing_hosts = failing_hosts
        self._get = get
        self._pages: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self._index_of: dict[str, str] = {}
        self._lock = threading.Lock()

    def urls(self, locked: LockedInput) -> Iterator[str]:
        """The listed addresses of a file; a source gets a request only if those before lack the file."""
        for source in self._failing_hosts.order(self.sources):
            for url in self._urls_in(source, locked):
                self._index_of.setdefault(urlsplit(url).netloc, source)
                yield url

    def serves(self, address: SplitResult) -> bool:
        """Whether a source is at this address's host, or links to it."""
        hosts = {urlsplit(source).netloc.rpartition("@")[2] for source in self.sources}
        return address.netloc.rpartition("@")[2] in hosts or address.netloc in self._index_of

    def index_of(self, url: str) -> str | None:
        """The source that links to this address's host, if any."""
        return self._index_of.get(urlsplit(url).netloc)

    def _urls_in(self, source: str, locked: LockedInput) -> list[str]:
        if "{" in source:
            url = fill(source, {**locked.fields, "sha256": locked.sha256})
            return [url] if url else []
        if redact(source) in self.failures:
            return []
        try:
            return list(self.find(source, locked.fields["name"], locked.fields["file"], locked.sha256))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # the answer may be anything
            self.failures[redact(source)] = redact(str(error))
            self._failing_hosts.report(source, str(error))
            return []

    def find(self, source: str, name: str, file: str, sha256: str) -> Iterator[str]:
        """The addresses of the file in this source; entries with another checksum are skipped.

        `source` is a simple index, a page of links, or a folder of either. Raises OSError if it fails.
        """
        if source.startswith("file:") and (path := path_of(source) / file).is_file():
            yield path.as_uri()
            return
        page = source if is_page(source) else f"{source.rstrip('/')}/{canonicalize_name(name)}/"
        for url, listed in self._links(page).get(file, ()):
            if not listed or listed == sha256:
                yield url

    def _links(self, page: str) -> dict[str, list[tuple[str, str]]]:
        with self._lock:
            if page in self._pages:
                return self._pages[page]
        try:
            links = _local(page) if page.startswith("file:") else links_of(*self._get(page), page)
        except NoSuchPage:
            links = {}
        with self._lock:
            return self._pages.setdefault(page, links)


def is_page(source: str) -> bool:
    """Whether a source is one page of links, by its name, as in pip's `find-links`."""
    return urlsplit(source).path.endswith((".html", ".htm"))


def is_folder_of_files(source: str) -> bool:
    """Whether a source is a local folder of wheels or sdists."""
    if not source.startswith("file:") or not path_of(source).is_dir():
        return False
    return any(entry.suffix in (".whl", ".gz", ".zip") for entry in path_of(source).iterdir())


def path_of(url: str) -> Path:
    """The path of a `file://` address."""
    return Path(url2pathname(urlsplit(url).path))


def _local(page: str) -> dict[str, list[tuple[str, str]]]:
    path = path_of(page)
    if path.is_dir():
        if not (path / "index.html").is_file():
            return {entry.name: [(entry.as_uri(), "")] for entry in path.iterdir() if entry.is_file()}
        path /= "index.html"
    if not path.is_file():
        raise NoSuchPage(page)
    return links_of(path.read_bytes(), "text/html", page)


def links_of(body: bytes, content_type: str, page: str) -> dict[str, list[tuple[str, str]]]:
    """The links of an index page by file name: address, and sha256 or an empty string, in the page's order."""
    if "json" in content_type:
        links = [(file["url"], (file.get("hashes") or {}).get("sha256", "")) for file in parsed(body)["files"]]
        base = page
    else:
        parser = _Anchors()
        parser.feed(body.decode("utf-8", "replace"))
        links, base = [(href, "") for href in parser.hrefs], urljoin(page, parser.base)
    by_name: dict[str, list[tuple[str, str]]] = {}
    for href, sha256 in links:
        url, _, fragment = urljoin(base, href).partition("#")
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        by_name.setdefault(name, []).append((with_credentials(url, [page]), sha256 or _sha256(fragment)))
    return by_name


def _sha256(fragment: str) -> str:
    return next((part.removeprefix("sha256=") for part in fragment.split("&") if part.startswith("sha256=")), "")


class _Anchors(HTMLParser):
    """The links of an HTML page, and its `<base>`."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "a":
            self.hrefs.append(href)
        elif href and tag == "base" and not self.base:
            self.base = href
