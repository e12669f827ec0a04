from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.fetch.measure import Measure
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own
from tests.support.fetching import QUICK, Here, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, cut, status, whole

DATA = content(1_000_000)
HALF = len(DATA) // 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def learn(urls: Sequence[str], store: Store, settings: Settings) -> tuple[str, int]:
    with Measure(Here(store, settings)) as measure:
        return measure.download(urls)


def learned(store: Store, *urls: str, settings: Settings = QUICK) -> bool:
    """Whether the download has the file's checksum and size."""
    sha256, size = learn(urls, store, settings)
    assert hashlib.sha256(store.path(sha256).read_bytes()).hexdigest() == sha256
    assert not any((store.root / "tmp").iterdir())
    return (sha256, size) == (want(DATA).sha256, len(DATA))


def chunked(request: Request) -> Reply:
    return Reply(200, {"Transfer-Encoding": "chunked"}, b"%x\r\n%s\r\n0\r\n\r\n" % (len(DATA), DATA))


@pytest.mark.parametrize("behaviour", [whole(DATA), chunked])
def test_a_file_tells_its_checksum(store: Store, server: Server, behaviour: Behaviour):
    assert learned(store, server.url("/no", status(404)), server.url("/f", behaviour))


def test_a_local_file_tells_its_checksum(store: Store, tmp_path: Path):
    (tmp_path / "a file").write_bytes(DATA)
    settings = replace(QUICK, own=Own.of([tmp_path.as_uri()]))
    assert learned(store, (tmp_path / "a file").as_uri(), settings=settings)


def test_a_cut_is_gone_on_with_where_an_etag_vouches_for_it(store: Store, server: Server):
    assert learned(store, server.url("/f", cut(DATA, HALF, ETag='"1"'), whole(DATA, ETag='"1"')))
    assert server.requests["/f"][1].headers["if-range"] == '"1"' and server.requests["/f"][1].start == HALF


def test_a_cut_begins_anew_where_nothing_vouches_for_it(store: Store, server: Server):
    assert learned(store, server.url("/f", cut(content(len(DATA), 1), HALF), whole(DATA)))
    assert server.requests["/f"][1].start is None


def test_halves_of_two_files_are_never_one(store: Store, server: Server):
    """The file changes during the fetch: a server that honours If-Range then sends the complete new one."""
    new = [lambda request: Reply(200, {"Content-Length": str(len(DATA)), "ETag": '"2"'}, DATA)]
    assert learned(store, server.url("/f", cut(content(len(DATA) + 1, 1), HALF, ETag='"1"'), *new))


def test_a_file_of_no_stated_length_is_refused(store: Store, server: Server):
    with pytest.raises(SourceError, match="it does not state the length of the file"):
        learn([server.url("/f", lambda r: Reply(200, {}, DATA, "close"))], store, QUICK)


def test_an_encoded_file_is_refused(store: Store, server: Server):
    with pytest.raises(SourceError, match="it encodes the file"):
        learn([server.url("/f", whole(DATA, Content_Encoding="gzip"))], store, QUICK)


def test_a_server_that_always_fails_is_given_up(store: Store, server: Server):
    with pytest.raises(SourceError, match=r"127\.0\.0\.1: HTTP 503"):
        learn([server.url("/f", status(503))], store, QUICK)
    assert len(server.requests["/f"]) == QUICK.attempts
    with pytest.raises(SourceError, match="ended 999999 bytes early"):
        learn([server.url("/g", cut(DATA, 1, "close"))], store, QUICK)


def test_a_page_in_place_of_the_file_does_not_give_its_size(store: Store, server: Server):
    page, file = server.url("/page", whole(b"not here")), server.url("/f", whole(DATA))
    with Measure(Here(store, QUICK)) as measure:
        assert measure([page, file], want(DATA).sha256) == (want(DATA).sha256, len(DATA))


def test_addresses_that_agree_are_not_downloaded(store: Store, server: Server):
    urls = [server.url(path, whole(DATA)) for path in ("/f", "/g")]
    with Measure(Here(store, QUICK)) as measure:
        assert measure([server.url("/no", status(404)), *urls], want(DATA).sha256) == (want(DATA).sha256, len(DATA))
    assert not store.path(want(DATA).sha256).exists()
