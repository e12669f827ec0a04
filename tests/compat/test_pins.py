"""Pins as people write them on a command line."""

from __future__ import annotations

import pytest

from reprokit.compat.pins import parse_pins
from reprokit.errors import UsageError


@pytest.mark.parametrize("text", ["torch==2.1.0", "pytorch=2.1.0", "pytorch==2.1.0"])
def test_the_spellings_of_pip_and_conda_are_pins(text: str) -> None:
    assert parse_pins(text) == {"torch": "2.1.0"}


@pytest.mark.parametrize("text", ["torch==", "torch===2.1.0", "torch=2.1.0,pytorch=2.0.0"])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pins(text)
