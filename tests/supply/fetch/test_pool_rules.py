"""Download rules, each with a server that misbehaves."""

from __future__ import annotations

import email.utils
import gzip
import time
from dataclasses import replace

import pytest

from reprokit.errors import SourceError
from tests.support.fetching import QUICK, Fetch, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, cut, status, whole

DATA = content(1_000_000)
HALF = len(DATA) // 2


def part(data: bytes, start: int, total: int, claimed: int | None = None) -> Behaviour:
    """A 206 that claims that `data` begins at `start` of `total` bytes."""
    place = f"bytes {start}-{start + len(data) - 1}/{total}"
    return lambda request: Reply(206, {"Content-Length": str(claimed or len(data)), "Content-Range": place}, data)


def test_a_file_is_asked_for_once_and_whole(fetch: Fetch, server: Server):
    url = server.url("/f", whole(DATA))
    done = fetch(want(DATA, url))
    assert fetch.has(DATA) and fetch.left_over() == []
    assert (done.files, done.bytes) == (1, len(DATA))
    (request,) = server.requests["/f"]
    assert request.start is None and request.headers["accept-encoding"] == "identity"
    assert fetch.places.reports == [(url, None)]


def test_a_warm_store_asks_nobody(fetch: Fetch, server: Server):
    wanted = want(DATA, server.url("/f", whole(DATA)))
    fetch(wanted)
    done = fetch(wanted, wanted)
    assert (done.files, done.bytes, done.stored_files, done.stored_bytes) == (0, 0, 1, len(DATA))
    assert len(server.requests["/f"]) == 1


def test_an_empty_file_is_a_file(fetch: Fetch, server: Server):
    fetch(want(b"", server.url("/f", whole(b""))))
    assert fetch.has(b"")


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_cut_connection_is_gone_on_with_by_a_closed_range(fetch: Fetch, server: Server, end: str):
    fetch(want(DATA, server.url("/f", cut(DATA, HALF, end), whole(DATA))))
    assert fetch.has(DATA)
    again = server.requests["/f"][1]
    assert again.headers["range"] == f"bytes={HALF}-{len(DATA) - 1}"
    assert "continuing from 500 kB" in fetch.lines[0]


def test_a_server_that_always_cuts_still_gives_the_file(fetch: Fetch, server: Server):
    fetch(want(DATA, server.url("/f", cut(DATA, 100_000))))
    assert fetch.has(DATA) and len(server.requests["/f"]) == 10


@pytest.mark.slow
def test_a_stalled_server_is_left_and_gone_on_with(fetch: Fetch, server: Server):
    def stall(request: Request) -> Reply:
        return Reply(200, {"Content-Length": str(len(DATA))}, DATA[:HALF], after=server.closing.wait)

    fetch(want(DATA, server.url("/f", stall, whole(DATA))), settings=replace(QUICK, stall_s=3))
    assert fetch.has(DATA) and server.requests["/f"][1].start == HALF
    assert "stalled; continuing from 500 kB" in fetch.lines[0]


def test_a_200_to_a_range_replaces_what_is_there(fetch: Fetch, server: Server):
    fetch.partial(b"x" * 300_000, of=DATA)  # appended to, this would never be right

    def deaf(request: Request) -> Reply:
        return Reply(200, {"Content-Length": str(len(DATA))}, DATA)

    fetch(want(DATA, server.url("/f", deaf)))
    assert fetch.has(DATA) and len(server.requests["/f"]) == 1


def test_a_206_that_begins_elsewhere_is_dropped(fetch: Fetch, server: Server):
    fetch.partial(DATA[:HALF], of=DATA)
    wrong = part(DATA[HALF - 10 :], HALF - 10, len(DATA))
    fetch(want(DATA, server.url("/f", wrong, whole(DATA))))
    assert fetch.has(DATA)
    assert [r.start for r in server.requests["/f"]] == [HALF, None]


def test_a_206_without_a_place_is_dropped(fetch: Fetch, server: Server):
    fetch.partial(DATA[:HALF], of=DATA)
    fetch(want(DATA, server.url("/f", lambda r: Reply(206, {"Content-Length": "9"}, b"multipart"), whole(DATA))))
    assert fetch.has(DATA)


def test_a_206_of_another_file_is_refused(fetch: Fetch, server: Server):
    kept = fetch.partial(DATA[:HALF], of=DATA)
    with pytest.raises(SourceError, match=f"has changed upstream.* {len(DATA) + 7} bytes there, expected {len(DATA)}"):
        fetch(want(DATA, server.url("/f", part(DATA[HALF:], HALF, len(DATA) + 7))))
    assert kept.read_bytes() == DATA[:HALF]


def test_a_206_in_pieces_is_gone_on_with(fetch: Fetch, server: Server):
    def pieces(request: Request) -> Reply:
        start = request.start or 0
        data = DATA[start : start + 250_000]
        place = f"bytes {start}-{start + len(data) - 1}/{len(DATA)}"
        return Reply(206, {"Content-Length": str(len(data)), "Content-Range": place}, data)

    fetch.partial(DATA[:100_000], of=DATA)
    fetch(want(DATA, server.url("/f", pieces)))
    assert fetch.has(DATA)


def test_a_416_begins_anew(fetch: Fetch, server: Server):
    fetch.partial(b"x" * 300_000, of=DATA)
    fetch(want(DATA, server.url("/f", status(416), whole(DATA))))
    assert fetch.has(DATA) and [r.start for r in server.requests["/f"]] == [300_000, None]


def test_a_416_that_knows_another_size_is_another_file(fetch: Fetch, server: Server):
    fetch.partial(DATA[:HALF], of=DATA)
    with pytest.raises(SourceError, match="has changed upstream"):
        fetch(want(DATA, server.url("/f", whole(DATA[: HALF - 1]))))


def test_a_whole_partial_needs_no_server(fetch: Fetch, server: Server):
    fetch.partial(DATA, of=DATA)
    done = fetch(want(DATA, server.url("/f", status(500))))
    assert fetch.has(DATA) and done.bytes == 0 and "/f" not in server.requests


@pytest.mark.parametrize("left", [b"x" * len(DATA), DATA + b"more", b"x" * HALF], ids=["other", "longer", "begun"])
def test_a_spoilt_partial_is_fetched_anew(fetch: Fetch, server: Server, left: bytes):
    fetch.partial(left, of=DATA)
    fetch(want(DATA, server.url("/f", whole(DATA))))
    assert fetch.has(DATA) and fetch.left_over() == []


def test_an_encoded_body_is_never_gone_on_with(fetch: Fetch, server: Server):
    def encoded(request: Request) -> Reply:
        good = whole(DATA, Content_Encoding="gzip")(request)
        return Reply(good.status, good.headers, good.body[:HALF], "reset" if request.start is None else "keep")

    fetch(want(DATA, server.url("/f", encoded, whole(DATA))))
    assert fetch.has(DATA) and [r.start for r in server.requests["/f"]] == [None, None]


def test_a_really_encoded_body_is_refused_by_name(fetch: Fetch, server: Server):
    with pytest.raises(SourceError, match=r"it encodes the file \(gzip\)"):
        fetch(want(DATA, server.url("/f", whole(gzip.compress(DATA), Content_Encoding="gzip"))))


def test_a_file_that_is_only_called_encoded_is_taken_as_it_is(fetch: Fetch, server: Server):
    packed = gzip.compress(DATA)
    fetch(want(packed, server.url("/f.gz", whole(packed, Content_Encoding="gzip"))))
    assert fetch.has(packed)


def test_if_range_goes_to_the_same_address_alone(fetch: Fetch, server: Server):
    first = server.url("/f", cut(DATA, 400_000, ETag='"v1"'), cut(DATA, 300_000, ETag='"v1"'), status(404))
    other = server.url("/g", whole(DATA))
    fetch(want(DATA, first, other))
    assert fetch.has(DATA)
    assert [r.headers.get("if-range") for r in server.requests["/f"]] == [None, '"v1"', '"v1"']
    assert "if-range" not in server.requests["/g"][0].headers and server.requests["/g"][0].start == 700_000


def test_a_weak_etag_is_no_validator(fetch: Fetch, server: Server):
    fetch(want(DATA, server.url("/f", cut(DATA, HALF, ETag='W/"v1"'), whole(DATA))))
    assert "if-range" not in server.requests["/f"][1].headers


def test_a_short_body_without_length_is_no_file(fetch: Fetch, server: Server):
    short = [lambda r: Reply(200, {}, DATA[:HALF], "close")]
    fetch(want(DATA, server.url("/f", *short, whole(DATA))))
    assert fetch.has(DATA) and server.requests["/f"][1].start == HALF


def test_an_endless_body_is_cut_at_the_size(fetch: Fetch, server: Server):
    def chunked(request: Request) -> Reply:
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(DATA), DATA) for _ in range(3))
        return Reply(200, {"Transfer-Encoding": "chunked"}, chunks, "close")

    with pytest.raises(SourceError, match="has changed upstream"):
        fetch(want(DATA, server.url("/f", chunked)))
    assert fetch.left_over() == []


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_what_is_not_given_is_not_asked_for_again(fetch: Fetch, server: Server, code: int):
    first, second = server.url("/gone", status(code, Retry_After="1")), server.url("/f", whole(DATA))
    fetch(want(DATA, first, second))
    assert fetch.has(DATA) and len(server.requests["/gone"]) == 1
    assert fetch.places.reports[0] == (first, f"HTTP {code}")


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date", "nonsense"])
def test_a_busy_server_is_asked_again_when_it_says(fetch: Fetch, server: Server, code: int, form: str):
    soon = email.utils.formatdate(time.time() + 3600, usegmt=True)
    after = {"seconds": "3600", "date": soon, "nonsense": "soon"}[form]  # an hour is capped at settings.longest_wait_s
    fetch(want(DATA, server.url("/f", status(code, Retry_After=after), whole(DATA))))
    assert fetch.has(DATA) and len(server.requests["/f"]) == 2


def test_a_busy_server_is_left_for_another_at_once(fetch: Fetch, server: Server):
    busy, good = server.url("/busy", status(503, Retry_After="3600")), server.url("/f", whole(DATA))
    fetch(want(DATA, busy, good))
    assert fetch.has(DATA) and len(server.requests["/busy"]) == 1


def test_a_server_that_stays_busy_is_given_up(fetch: Fetch, server: Server):
    with pytest.raises(SourceError, match=r"file.bin: HTTP 503"):
        fetch(want(DATA, server.url("/f", status(503))))
    assert len(server.requests["/f"]) == QUICK.attempts


@pytest.mark.slow
def test_an_endless_drip_is_left(fetch: Fetch, server: Server):
    def drip(request: Request) -> Reply:
        return Reply(200, {"Content-Length": str(len(DATA))}, DATA, piece=1, pause=lambda: time.sleep(0.02))

    fetch(
        want(DATA, server.url("/drip", drip), server.url("/f", whole(DATA))), settings=replace(QUICK, slow_window_s=1)
    )
    assert fetch.has(DATA) and server.requests["/f"][0].start
    assert "less than 1000 bytes/s" in fetch.lines[0]


def test_wrong_bytes_are_fetched_once_more_and_refused(fetch: Fetch, server: Server):
    other, wanted = content(len(DATA), 1), want(DATA)
    url = server.url("/f", whole(other))
    with pytest.raises(SourceError) as caught:
        fetch(want(DATA, url))
    assert caught.value.where == url and "has changed upstream" in caught.value.message
    assert f"expected sha256 {wanted.sha256}, got {want(other).sha256}" in caught.value.message
    assert len(server.requests["/f"]) == 2 and fetch.left_over() == [] and not fetch.has(other)


def test_bytes_spoilt_on_the_way_are_made_good_by_the_second_try(fetch: Fetch, server: Server):
    fetch(want(DATA, server.url("/f", whole(content(len(DATA), 1)), whole(DATA))))
    assert fetch.has(DATA)


def test_a_mirror_with_other_bytes_is_passed_over(fetch: Fetch, server: Server):
    fetch(want(DATA, server.url("/stale", whole(content(len(DATA), 1))), server.url("/f", whole(DATA))))
    assert fetch.has(DATA) and server.requests["/f"][0].start is None


def test_an_error_page_is_not_the_file(fetch: Fetch, server: Server):
    page = whole(b"<html>Sign in to this network</html>")
    found = fetch(want(DATA, server.url("/portal", page), server.url("/f", whole(DATA))))
    assert fetch.has(DATA) and found.bytes == len(DATA)


def test_an_address_that_nobody_listens_at_is_passed_over(fetch: Fetch, server: Server):
    fetch(want(DATA, "http://127.0.0.1:1/f", "gopher://old/f", server.url("/f", whole(DATA))))
    assert fetch.has(DATA)
    assert [error for _, error in fetch.places.reports] == [
        "Connection refused",
        "not an address of a file: gopher://old/f",
        None,
    ]
