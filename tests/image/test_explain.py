"""Whose fault a failed build is."""

from __future__ import annotations

import pytest

from reprokit.errors import EngineError, SourceError, WorkFailed
from reprokit.image.events import Failed
from reprokit.image.explain import explain
from reprokit.image.failure import Extractor
from tests.support.builds import target_of


class Asked:
    def __init__(self, requests: int = 1, refused: tuple[str, ...] = (), **missing: int) -> None:
        self.requests, self.refused, self.missing = requests, refused, missing


@pytest.mark.parametrize(
    ("lines", "gateway", "kind", "words"),
    [
        (["x: error: y"], Asked(), WorkFailed, "x: error: y"),
        (["tar: write error: No space left on device"], Asked(), EngineError, "disk is full"),
        (["reprokit: block a: expected b, found c", "curl: Could not resolve x"], Asked(), WorkFailed, "expected b"),
        (["W: Failed to fetch http://x"], Asked(), SourceError, "Failed to fetch"),
        (["E: Unable to connect to 127.0.0.1:1"], Asked(0), WorkFailed, "no request reached reprokit's gateway"),
        (["ERROR: No matching distribution found for y"], Asked(y=1), WorkFailed, "does not name: y"),
        (["curl: (22) error: 403"], Asked(refused=("http://h/a",)), WorkFailed, "undeclared download: http://h/a"),
        (["fatal: unable to access 'https://h'"], Asked(refused=("h:443",)), WorkFailed, "build --record x:v"),
        ([], Asked(), WorkFailed, "code: 1"),
    ],
)
def test_whose_fault_it_is(lines: list[str], gateway, kind: type, words: str):
    extractor = Extractor()
    for line in lines:
        extractor.feed(line)
    error = explain(target_of("x"), Failed("tvm", "RUN make", "code: 1"), "code: 1", extractor, gateway)
    assert type(error) is kind
    assert error.message.startswith(
        ("x:v: block tvm failed: RUN make\n", "the engine's disk is full\n  x:v: block tvm failed")
    )
    assert words in f"{error.message} {error.hint}"
