"""Download rules, each with a server that misbehaves."""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.errors import SourceError
from reprokit.supply.fetch.http import retry_after
from reprokit.supply.store import Store
from tests.support.fetching import QUICK, Fetch, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, cut, status, whole

DATA, OTHER = content(1_000_000), content(1_000_000, 1)
HALF = len(DATA) // 2


def reply(code: int, body: bytes, start: int | None = None, total: int = len(DATA), end: str = "keep") -> Behaviour:
    """An answer whose parts may contradict each other; `start` and `total` are those of a Content-Range."""
    place = {} if start is None else {"Content-Range": f"bytes {start}-{start + len(body) - 1}/{total}"}
    return lambda request: Reply(code, {"Content-Length": str(len(body)), **place}, body, end)


def pieces(request: Request) -> Reply:
    start = request.start or 0
    return reply(206, DATA[start : start + 250_000], start)(request)


def encoded_half(request: Request) -> Reply:
    good = whole(DATA, Content_Encoding="gzip")(request)
    return Reply(good.status, good.headers, good.body[:HALF], "reset" if request.start is None else "keep")


def without_length(request: Request) -> Reply:
    return Reply(200, {}, DATA[:HALF], "close")


def endless(request: Request) -> Reply:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(DATA), DATA) for _ in range(3))
    return Reply(200, {"Transfer-Encoding": "chunked"}, chunks, "close")


def test_a_file_is_asked_for_once_and_whole(fetch: Fetch, server: Server):
    url = server.url("/f", whole(DATA))
    done = fetch(want(DATA, url))
    assert fetch.has(DATA) and fetch.left_over() == []
    assert (done.files, done.bytes) == (1, len(DATA))
    (request,) = server.requests["/f"]
    assert request.start is None and request.headers["accept-encoding"] == "identity"
    assert fetch.places.reports == [(url, None)]
    done = fetch(want(DATA, url), want(DATA, url))
    assert (done.files, done.bytes, done.stored_files, done.stored_bytes) == (0, 0, 1, len(DATA))
    assert len(server.requests["/f"]) == 1
    packed = gzip.compress(DATA)
    fetch(
        want(b"", server.url("/empty", whole(b""))),
        want(packed, server.url("/f.gz", whole(packed, Content_Encoding="gzip"))),  # only called encoded
    )
    assert fetch.has(b"") and fetch.has(packed)


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_cut_connection_is_gone_on_with_by_a_closed_range(fetch: Fetch, server: Server, end: str):
    fetch(want(DATA, server.url("/f", cut(DATA, HALF, end), whole(DATA))))
    assert fetch.has(DATA)
    again = server.requests["/f"][1]
    assert again.headers["range"] == f"bytes={HALF}-{len(DATA) - 1}"
    assert "continuing from 500 kB" in fetch.lines[0]


# What an earlier process left, the server's answers, and where each request starts.
COMPLETED: dict[str, tuple[bytes, list[Behaviour], list[int | None]]] = {
    "always cut": (b"", [cut(DATA, 100_000)], [None, *range(100_000, 1_000_000, 100_000)]),
    "a 200 to a range": (b"x" * 300_000, [reply(200, DATA)], [300_000]),
    "a 206 of another place": (DATA[:HALF], [reply(206, DATA[HALF - 10 :], HALF - 10), whole(DATA)], [HALF, None]),
    "a 206 without a place": (DATA[:HALF], [reply(206, b"multipart"), whole(DATA)], [HALF, None]),
    "a 206 in pieces": (DATA[:100_000], [pieces], [100_000, 350_000, 600_000, 850_000]),
    "a 416": (b"x" * 300_000, [status(416), whole(DATA)], [300_000, None]),
    "a complete partial file": (DATA, [status(500)], []),
    "another partial file": (b"x" * len(DATA), [whole(DATA)], [None]),
    "a longer partial file": (DATA + b"more", [whole(DATA)], [None]),
    "a spoilt partial file": (b"x" * HALF, [whole(DATA)], [HALF, None]),
    "an encoded body": (b"", [encoded_half, whole(DATA)], [None, None]),
    "a short body without length": (b"", [without_length, whole(DATA)], [None, HALF]),
    "bytes spoilt on the way": (b"", [whole(OTHER), whole(DATA)], [None, None]),
}


@pytest.mark.parametrize(("left", "behaviours", "starts"), COMPLETED.values(), ids=COMPLETED)
def test_the_file_is_completed(fetch: Fetch, server: Server, left: bytes, behaviours: list[Behaviour], starts: list):
    if left:
        fetch.partial(left, of=DATA)
    done = fetch(want(DATA, server.url("/f", *behaviours)))
    assert fetch.has(DATA) and fetch.left_over() == []
    assert [request.start for request in server.requests["/f"]] == starts
    assert starts or done.bytes == 0


CHANGED = "has changed upstream"
REFUSED: dict[str, tuple[bytes, Behaviour, str, int]] = {
    "a 206 of another file": (
        DATA[:HALF],
        reply(206, DATA[HALF:], HALF, len(DATA) + 7),
        f"{CHANGED}.* {len(DATA) + 7} bytes there, expected {len(DATA)}",
        1,
    ),
    "a 416 with another size": (DATA[:HALF], whole(DATA[: HALF - 1]), CHANGED, 1),
    "an encoded file": (b"", whole(gzip.compress(DATA), Content_Encoding="gzip"), r"it encodes the file \(gzip\)", 1),
    "an endless body": (b"", endless, CHANGED, 2),
    "always busy": (b"", status(503), "file.bin: HTTP 503", QUICK.attempts),
}


@pytest.mark.parametrize(("left", "behaviour", "message", "requests"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(fetch: Fetch, server: Server, left: bytes, behaviour: Behaviour, message: str, requests: int):
    if left:
        partial = fetch.partial(left, of=DATA)
    with pytest.raises(SourceError) as caught:
        fetch(want(DATA, server.url("/f", behaviour)))
    assert re.search(message, caught.value.message)
    assert len(server.requests["/f"]) == requests
    if left:
        assert partial.read_bytes() == left
    else:
        assert fetch.left_over() == []


def test_wrong_bytes_are_fetched_once_more_and_refused(fetch: Fetch, server: Server):
    url = server.url("/f", whole(OTHER))
    with pytest.raises(SourceError) as caught:
        fetch(want(DATA, url))
    assert caught.value.where == url and CHANGED in caught.value.message
    assert f"expected sha256 {want(DATA).sha256}, got {want(OTHER).sha256}" in caught.value.message
    assert len(server.requests["/f"]) == 2 and fetch.left_over() == [] and not fetch.has(OTHER)
    fetch(want(DATA, url, server.url("/g", whole(DATA))))  # another address may have the right ones
    assert fetch.has(DATA) and server.requests["/g"][0].start is None


def test_if_range_goes_to_the_same_address_alone_and_has_a_strong_etag(fetch: Fetch, server: Server):
    first = server.url("/f", cut(DATA, 400_000, ETag='"v1"'), cut(DATA, 300_000, ETag='"v1"'), status(404))
    fetch(want(DATA, first, server.url("/g", whole(DATA))))
    assert fetch.has(DATA)
    assert [r.headers.get("if-range") for r in server.requests["/f"]] == [None, '"v1"', '"v1"']
    assert "if-range" not in server.requests["/g"][0].headers and server.requests["/g"][0].start == 700_000
    for number, etag in enumerate(('W/"v1"', "v1", '"a"b"')):
        data = content(200_000, 2 + number)
        fetch(want(data, server.url(f"/{number}", cut(data, 100_000, ETag=etag), whole(data))))
        assert "if-range" not in server.requests[f"/{number}"][1].headers


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        *((status(code, Retry_After="1"), f"HTTP {code}") for code in (401, 403, 404, 410)),
        (status(503, Retry_After="3600"), "HTTP 503"),
        (whole(b"<html>Sign in to this network</html>"), f"the file has 36 bytes there, expected {len(DATA)}"),
    ],
)
def test_what_is_not_given_is_not_asked_for_again(fetch: Fetch, server: Server, behaviour: Behaviour, error: str):
    first, second = server.url("/gone", behaviour), server.url("/f", whole(DATA))
    assert fetch(want(DATA, first, second)).bytes == len(DATA)
    assert fetch.has(DATA) and len(server.requests["/gone"]) == 1
    assert fetch.places.reports == [(first, error), (second, None)]


@pytest.mark.parametrize(("code", "form"), [(429, "date"), (503, "seconds"), (503, "nonsense")])
def test_a_busy_server_is_asked_again_when_it_says(fetch: Fetch, server: Server, code: int, form: str):
    soon = email.utils.formatdate(time.time() + 3600, usegmt=True)
    after = {"seconds": "3600", "date": soon, "nonsense": "soon"}[form]  # an hour is capped at settings.longest_wait_s
    fetch(want(DATA, server.url("/f", status(code, Retry_After=after), whole(DATA))))
    assert fetch.has(DATA) and len(server.requests["/f"]) == 2


@pytest.mark.parametrize(
    ("value", "seconds"),  # from 2023-11-14 22:13:20 on
    [
        ("120", 120),
        (" 0 ", 0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tue, 14 Nov 2023 22:14:20 -0000", 60),
        ("Tue, 14 Nov 2023 21:00:00 GMT", 0),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("0\x1f", 0),
    ],
)
def test_retry_after(value: str, seconds: float | None):
    assert retry_after(value, 1_700_000_000.0) == seconds


@pytest.mark.slow
def test_a_stalled_server_is_left_and_gone_on_with(fetch: Fetch, server: Server):
    def stall(request: Request) -> Reply:
        return Reply(200, {"Content-Length": str(len(DATA))}, DATA[:HALF], after=server.closing.wait)

    fetch(want(DATA, server.url("/f", stall, whole(DATA))), settings=replace(QUICK, stall_s=3))
    assert fetch.has(DATA) and server.requests["/f"][1].start == HALF
    assert "stalled; continuing from 500 kB" in fetch.lines[0]


@pytest.mark.slow
def test_an_endless_drip_is_left(fetch: Fetch, server: Server):
    def drip(request: Request) -> Reply:
        return Reply(200, {"Content-Length": str(len(DATA))}, DATA, piece=1, pause=lambda: time.sleep(0.02))

    urls = server.url("/drip", drip), server.url("/f", whole(DATA))
    fetch(want(DATA, *urls), settings=replace(QUICK, slow_window_s=1))
    assert fetch.has(DATA) and server.requests["/f"][0].start
    assert "less than 1000 bytes/s" in fetch.lines[0]


def test_an_address_that_nobody_listens_at_is_passed_over(fetch: Fetch, server: Server):
    fetch(want(DATA, "http://127.0.0.1:1/f", "gopher://old/f", server.url("/f", whole(DATA))))
    assert fetch.has(DATA)
    assert [error for _, error in fetch.places.reports] == [
        "Connection refused",
        "not an address of a file: gopher://old/f",
        None,
    ]


SMALL = DATA[:300_000]
behaviours = st.one_of(
    st.sampled_from([whole(SMALL), reply(200, SMALL), status(404), status(416), status(503), whole(b"page")]),
    st.builds(cut, st.just(SMALL), st.integers(0, len(SMALL)), st.sampled_from(["close", "reset"])),
    st.builds(
        reply,
        st.sampled_from([200, 206]),
        st.sampled_from([SMALL, SMALL[1000:], b"x" * 1000, b""]),
        st.integers(0, len(SMALL)),
        st.sampled_from([len(SMALL), 7]),
        st.just("close"),
    ),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(behaviours, min_size=1, max_size=6), st.binary(max_size=20) | st.just(SMALL[:150_000]))
def test_whatever_servers_do_only_the_right_bytes_are_published(answers: Sequence[Behaviour], left: bytes):
    server = Server()
    try:
        with TemporaryDirectory() as folder:
            fetch = Fetch(Store(Path(folder)))
            fetch.partial(left, of=SMALL)
            try:
                fetch(want(SMALL, server.url("/f", *answers)))
            except SourceError:
                assert not fetch.has(SMALL)
            else:
                assert fetch.has(SMALL) and fetch.left_over() == []
            for path in (fetch.store.root / "sha256").glob("*/*"):
                assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    finally:
        server.close()
