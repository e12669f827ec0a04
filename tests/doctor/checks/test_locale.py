"""The login's locale."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import locale
from tests.support.examined import FakeMachine


@pytest.mark.parametrize(
    ("name", "rules"),
    [("C.UTF-8", set()), ("C", {"locale.charset"}), ("xx_YY.UTF-8", {"locale"}), ("\x1b[31m", {"locale"})],
)
def test_locales(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, name: str, rules: set[str]) -> None:
    monkeypatch.setenv("LC_ALL", name)
    assert machine.rules(locale) == rules
