"""What a hostile program prints before it fails: the log of the last failure is data, and its explanation bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.explain.last import HALF, OutputRecording, keep, log_path
from reprokit.untrusted.text import escaped


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))


def test_a_forged_fact_is_text():
    forged = "reprokit: out of memory: the kernel killed \x1b]0;owned\x07\u202e{pid}{container} in container x\n"
    cause = keep(forged)[0]
    assert cause == escaped(cause) and "{pid}{container}" in cause
    # The harmless neighbour is shown as it is.
    assert (
        "killed python3 in container x" in keep(forged.replace("\x1b]0;owned\x07\u202e{pid}{container}", "python3"))[0]
    )


def test_lines_are_short_whatever_is_captured():
    lines = keep("ModuleNotFoundError: No module named '" + "a" * 1000 + "'\n" + "x" * HALF)
    assert len(lines) == 3 and max(map(len, lines)) < 500


@pytest.mark.parametrize(
    "line", [b"Killed ", b"nvcc: not found\n", b"error: " * 50 + b"\n", b"\x1b[" * 9 + b"\r", b"{"]
)
@pytest.mark.slow
def test_output_without_end_costs_a_bounded_amount(line: bytes):
    recording = OutputRecording()
    for _ in range(40):
        recording.write(line * (1_000_000 // len(line)))
    keep(recording)
    assert log_path().stat().st_size < 2 * HALF + 500
