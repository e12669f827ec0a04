from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reprokit.errors import SourceError
from reprokit.supply.fetch.answers import Body, Refusal, judge, retry_after, strong_etag
from reprokit.supply.store import Store
from tests.support.fetching import Fetch, content, want
from tests.support.file_server import Behaviour, Reply, Request, Server, cut, status, whole

NOW = 1_700_000_000.0  # 2023-11-14 22:13:20


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tue, 14 Nov 2023 22:14:20 -0000", 60),
        ("Tue, 14 Nov 2023 21:00:00 GMT", 0),
        ("", None),
        ("-5", None),
        ("soon", None),
    ],
)
def test_retry_after(value: str, seconds: float | None):
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=40))
@example("0\x1f")
def test_any_retry_after_is_bearable(value: str):
    found = retry_after(value, NOW)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("etag", "strong"), [('"a"', '"a"'), ('W/"a"', None), ("a", None), ("", None), ('"a"b"', None)]
)
def test_only_strong_etags_say_something_of_bytes(etag: str, strong: str | None):
    assert strong_etag({"ETag": etag}) == strong


headers = st.fixed_dictionaries(
    {},
    optional={
        "Content-Range": st.one_of(
            st.text(max_size=30),
            st.builds(
                "bytes {}-{}/{}".format, st.integers(0, 120), st.integers(0, 120), st.integers(0, 120) | st.just("*")
            ),
        ),
        "Content-Length": st.integers(0, 120).map(str) | st.text(max_size=5),
        "Content-Encoding": st.sampled_from(["identity", "gzip", ""]),
        "Retry-After": st.text(max_size=10),
    },
)


@given(st.integers(200, 599), headers, st.integers(0, 99))
@pytest.mark.slow
def test_only_a_206_at_this_place_of_this_file_is_appended(code: int, given_headers: dict[str, str], offset: int):
    try:
        body = judge(code, given_headers, offset, 100, NOW)
    except Refusal:
        return
    if body.do == "append":
        place = given_headers["Content-Range"]
        assert code == 206 and offset and place.startswith(f"bytes {offset}-") and place.endswith("/100")
        assert given_headers.get("Content-Encoding", "") in ("", "identity")
    elif body.do == "start":
        assert code == 200


def test_a_file_of_unknown_size_takes_the_server_s_word():
    assert judge(200, {"Content-Length": "7"}, 0, None, NOW) == Body("start", 7)
    assert judge(206, {"Content-Range": "bytes 3-6/7"}, 3, None, NOW) == Body("append", 7)


DATA = content(300_000)


def lies(code: int, start: int, total: int, body: bytes) -> Behaviour:
    """An answer whose parts may contradict each other."""
    place = {"Content-Range": f"bytes {start}-{start + len(body)}/{total}"} if code == 206 else {}
    return lambda request: Reply(code, {"Content-Length": str(len(body)), **place}, body, "close")


def refuses_ranges(request: Request) -> Reply:
    return Reply(200, {"Content-Length": str(len(DATA))}, DATA)


behaviours = st.one_of(
    st.sampled_from([whole(DATA), refuses_ranges, status(404), status(416), status(503), whole(b"page")]),
    st.builds(cut, st.just(DATA), st.integers(0, len(DATA)), st.sampled_from(["close", "reset"])),
    st.builds(
        lies,
        st.sampled_from([200, 206]),
        st.integers(0, len(DATA)),
        st.sampled_from([len(DATA), 7]),
        st.sampled_from([DATA, DATA[1000:], b"x" * 1000, b""]),
    ),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(behaviours, min_size=1, max_size=6), st.binary(max_size=20) | st.just(DATA[:150_000]))
def test_whatever_servers_do_only_the_right_bytes_are_published(told: list[Behaviour], left: bytes):
    server = Server()
    try:
        with TemporaryDirectory() as folder:
            fetch = Fetch(Store(Path(folder)))
            fetch.partial(left, of=DATA)
            try:
                fetch(want(DATA, server.url("/f", *told)))
            except SourceError:
                assert not fetch.has(DATA)
            else:
                assert fetch.has(DATA) and fetch.left_over() == []
            for path in (fetch.store.root / "sha256").glob("*/*"):
                assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    finally:
        server.close()
