"""Wheels by file name: looked up on simple indexes (PEP 503, PEP 691), on pages of links and in folders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from reprokit.untrusted.documents import parsed

# RFC 9110 weights: JSON where the index has it, which is a tenth of the size to read.
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class NotThere(Exception):
    """The index has no such page."""


# An address's body and content type. Raises NotThere, or OSError where the place is at fault.
Get = Callable[[str], "tuple[bytes, str]"]


class Lookup:
    """Pages that were asked for once are not asked for again while this object lives; threads may share it."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._pages: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self._lock = threading.Lock()

    def find(self, source: str, name: str, file: str, sha256: str) -> Iterator[str]:
        """Where this source has the file; one that it lists with another checksum is not it.

        `source` is a simple index, a page of links, or a folder of either. Raises OSError where it cannot be asked.
        """
        if source.startswith("file:"):
            here = path_of(source) / file
            if here.is_file():
                yield here.as_uri()
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
            if page.startswith("file:"):
                found = _local(page)
            else:
                body, kind = self._get(page)
                found = links_of(body, kind, page)
        except NotThere:
            found = {}
        with self._lock:
            return self._pages.setdefault(page, found)


def is_page(source: str) -> bool:
    """Whether a source is one page of links, by its name, as pip's `find-links` judges it too."""
    return urlsplit(source).path.endswith((".html", ".htm"))


def is_folder_of_files(source: str) -> bool:
    """Whether a source is a folder here that holds wheels or sdists itself."""
    if not source.startswith("file:") or not path_of(source).is_dir():
        return False
    return any(entry.suffix in (".whl", ".gz", ".zip") for entry in path_of(source).iterdir())


def path_of(url: str) -> Path:
    """The path that a `file://` address means."""
    return Path(url2pathname(urlsplit(url).path))


def _local(page: str) -> dict[str, list[tuple[str, str]]]:
    path = path_of(page)
    if path.is_dir():
        if not (path / "index.html").is_file():
            return {entry.name: [(entry.as_uri(), "")] for entry in path.iterdir() if entry.is_file()}
        path /= "index.html"
    if not path.is_file():
        raise NotThere(page)
    return links_of(path.read_bytes(), "text/html", page)


def links_of(body: bytes, content_type: str, page: str) -> dict[str, list[tuple[str, str]]]:
    """An index's page as file name: (address, its sha256 or nothing) in the page's order."""
    if "json" in content_type:
        links = [(file["url"], (file.get("hashes") or {}).get("sha256", "")) for file in parsed(body)["files"]]
        base = page
    else:
        parser = _Anchors()
        parser.feed(body.decode("utf-8", "replace"))
        links, base = [(href, "") for href in parser.hrefs], urljoin(page, parser.base)
    found: dict[str, list[tuple[str, str]]] = {}
    for href, sha256 in links:
        url, _, fragment = urljoin(base, href).partition("#")
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        found.setdefault(name, []).append((_with_credentials(url, page), sha256 or _sha256(fragment)))
    return found


def _sha256(fragment: str) -> str:
    return next((part.removeprefix("sha256=") for part in fragment.split("&") if part.startswith("sha256=")), "")


def _with_credentials(url: str, page: str) -> str:
    """A file on the index's own host is asked for with the index's credentials, as pip does."""
    file, index = urlsplit(url), urlsplit(page)
    mine = (file.scheme, file.hostname, file.port) == (index.scheme, index.hostname, index.port)
    if not mine or file.username is not None or index.username is None:
        return url
    return file._replace(netloc=index.netloc).geturl()


class _Anchors(HTMLParser):
    """The addresses of a page's links, and its `<base>`."""

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
