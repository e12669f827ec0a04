from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.supply.fetch.answers import Body, Refusal, judge, retry_after, strong_etag

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
        ("0\x1f", 0),
    ],
)
def test_retry_after(value: str, seconds: float | None):
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    ("etag", "strong"), [('"a"', '"a"'), ('W/"a"', None), ("a", None), ("", None), ('"a"b"', None)]
)
def test_only_strong_etags_identify_bytes(etag: str, strong: str | None):
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
