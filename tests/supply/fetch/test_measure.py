from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.fetch.download import Measure
from reprokit.supply.fetch.http import Settings
from reprokit.supply.store import Store
from reprokit.untrusted.addresses import Own
from tests.support.fetching import QUICK, Here, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, cut, status, whole

DATA = content(1_000_000)
HALF = len(DATA) // 2


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


def test_the_checksum_of_a_file_is_learned(store: Store, server: Server, tmp_path: Path):
    assert learned(store, server.url("/no", status(404)), server.url("/f", whole(DATA)))
    assert learned(store, server.url("/chunked", chunked))
    (tmp_path / "a file").write_bytes(DATA)
    settings = replace(QUICK, own=Own.of([tmp_path.as_uri()]))
    assert learned(store, (tmp_path / "a file").as_uri(), settings=settings)


def test_a_cut_is_gone_on_with_where_an_etag_vouches_for_it(store: Store, server: Server):
    assert learned(store, server.url("/f", cut(DATA, HALF, ETag='"1"'), whole(DATA, ETag='"1"')))
    assert server.requests["/f"][1].headers["if-range"] == '"1"' and server.requests["/f"][1].start == HALF


def test_a_cut_begins_anew_if_nothing_vouches_for_it(store: Store, server: Server):
    assert learned(store, server.url("/f", cut(content(len(DATA), 1), HALF), whole(DATA)))
    assert server.requests["/f"][1].start is None
    # The file changes during the fetch: a server that honours If-Range then sends the complete new one.
    new = [lambda request: Reply(200, {"Content-Length": str(len(DATA)), "ETag": '"2"'}, DATA)]
    assert learned(store, server.url("/g", cut(content(len(DATA) + 1, 1), HALF, ETag='"1"'), *new))


@pytest.mark.parametrize(
    ("behaviour", "why", "requests"),
    [
        (lambda request: Reply(200, {}, DATA, "close"), "it does not state the length of the file", 1),
        (whole(DATA, Content_Encoding="gzip"), "it encodes the file", 1),
        (status(503), r"127\.0\.0\.1: HTTP 503", QUICK.attempts),
        (cut(DATA, 1, "close"), "ended 999999 bytes early", QUICK.attempts),
    ],
)
def test_what_is_refused(store: Store, server: Server, behaviour: Behaviour, why: str, requests: int):
    with pytest.raises(SourceError, match=why):
        learn([server.url("/f", behaviour)], store, QUICK)
    assert len(server.requests["/f"]) == requests


def test_a_known_checksum_needs_the_size_on_which_addresses_agree(store: Store, server: Server):
    expected = (want(DATA).sha256, len(DATA))
    urls = [server.url(path, whole(DATA)) for path in ("/f", "/g")]
    with Measure(Here(store, QUICK)) as measure:
        assert measure([server.url("/no", status(404)), *urls], expected[0]) == expected
        assert not store.path(expected[0]).exists()
        # A page in place of the file does not give its size.
        assert measure([server.url("/page", whole(b"not here")), urls[0]], expected[0]) == expected
