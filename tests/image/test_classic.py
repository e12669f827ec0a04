"""The classic builder's context, its stream and its label instruction."""

from __future__ import annotations

import re
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.errors import UsageError
from reprokit.image.classic import build_context, jobs_of, label_line, stream_lines


@pytest.mark.parametrize(("requested", "jobs"), [("1", 1), ("3", 3), ("64", 4)])
def test_max_jobs_is_the_users(requested: str, jobs: int):
    assert jobs_of(requested, 4) == jobs
    assert 1 <= jobs_of("", 4) <= 4


@pytest.mark.parametrize("requested", ["0", "-1", "two", "2;3", "1e3", "99999", " "])
def test_max_jobs_is_a_number(requested: str):
    with pytest.raises(UsageError, match="MAX_JOBS"):
        jobs_of(requested, 4)


def test_the_classic_builders_stream_becomes_lines():
    stream = [
        {"stream": "Step 1/2 : FROM x"},
        {"stream": "\n"},
        {"stream": " ---> 0123456789ab\n"},
        {"stream": "Step 2/2 : RUN echo two"},
        {"stream": "\n"},
        {"stream": "half a "},
        {"stream": "line\n10%\r20%\r"},
        {"stream": "\r100%\nlast"},
        {"error": "returned a non-zero code: 1"},
    ]
    assert list(stream_lines(iter(stream))) == [
        "Step 1/2 : FROM x", " ---> 0123456789ab", "Step 2/2 : RUN echo two", "half a line", "100%", "last",
        {"error": "returned a non-zero code: 1"},
    ]  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(st.from_regex(r"reprokit\.[a-z-]{1,12}", fullmatch=True), st.text(max_size=40), min_size=1))
def test_labels_are_one_instruction_and_come_back_as_they_were(given_labels: dict[str, str]):
    try:
        line = label_line(given_labels)
    except UsageError:
        assert not all(value.isprintable() for value in given_labels.values())
        return
    assert line.count("\n") == 1 and line.startswith("LABEL ") and line.endswith('"\n')
    # A Dockerfile's double quotes know three escapes: of themselves, of the dollar and of the backslash.
    found = re.findall(r'(reprokit\.[a-z-]+)="((?:\\.|[^"\\])*)"', line)
    assert {name: re.sub(r'\\(["$\\])', r"\1", value) for name, value in found} == given_labels


def test_a_context_has_the_same_bytes_each_time():
    assert build_context("FROM x\n").getvalue() == build_context("FROM x\n").getvalue()
    with tarfile.open(fileobj=build_context("FROM x\n")) as tar:
        assert tar.getnames() == ["Dockerfile"]
        assert {(m.mtime, m.uid, m.gid, m.mode) for m in tar} == {(0, 0, 0, 0o644)}
