"""The user's mirrors."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reprokit.doctor.checks import mirrors
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors.effective import Line, MirrorAnswer
from reprokit.supply.mirrors.places import Mirrors
from tests.support.examined import FakeMachine


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "Mirrors", lambda store: Mirrors(store, pip=PipSettings(), apt=AptSettings()))


LINE = Line("apt", "http://me:hunter2@mirror.test/{path}", "config.yaml:3")


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        (MirrorAnswer(LINE, 0.1, 3e6), set()),
        (MirrorAnswer(LINE, 0.1, 9e3), {"mirrors.slow"}),
        (MirrorAnswer(LINE, error="HTTP 503"), {"mirrors.fails", "mirrors.silent"}),
        (MirrorAnswer(LINE, error="certificate verify failed"), {"mirrors.certificate", "mirrors.silent"}),
    ],
)
def test_answers(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, answer: MirrorAnswer, rules: set[str]) -> None:
    monkeypatch.setattr(mirrors, "lines", lambda found: [LINE])
    monkeypatch.setattr(mirrors, "ask", lambda line, client: answer)
    assert machine.rules(mirrors) == rules
    assert "hunter2" not in str(machine.find(mirrors))


@pytest.mark.slow
def test_a_mirror_that_hangs_does_not_hide_the_others(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Line("wheels", "https://wheels.test/simple", "pip")
    monkeypatch.setattr(mirrors, "_ASK_S", 3)
    monkeypatch.setattr(mirrors, "lines", lambda found: [LINE, other])

    def asked(line: Line, client: object) -> MirrorAnswer:
        if line is LINE:
            threading.Event().wait(60)
        return MirrorAnswer(line, 0.1, 3e6)

    monkeypatch.setattr(mirrors, "ask", asked)
    found = {finding.subjects[0]: finding.rule for finding in machine.find(mirrors)}
    assert found["mirror.wheels=https://wheels.test/simple"] == "mirrors"
    assert found["mirror.apt=http://mirror.test/{path}"] == "mirrors.fails"
