"""All checks at once, with every probe replaced by one that hangs, fails, prints rubbish, or is missing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.checks import CHECKS
from reprokit.doctor.examine import examine
from reprokit.doctor.examined import Examined
from reprokit.doctor.shell import Reported
from tests.support.examined import INFO, FakeMachine, PlainEngine, target

OFFLINE = {name: check for name, check in CHECKS.items() if name != "mirrors"}
RECIPE = target({"base": "debian:12", "requires": {"gpu": "required", "memory": "64GiB", "disk": "30GiB"}})
RUBBISH = [
    *("", " ", "\x1b]0;owned\x07", "\u202e", "9" * 3000, "-1", "nan", "0x", "%s", "{}", "[]", ",,,,,,", "a b c d"),
    *("MemTotal: x kB", "MemTotal:", "/dev/sda 1 1 1 1% /", "0, 0, 0, 0, 0", "$(id)", "1 2 3 4", "nameserver"),
]


class Probe:
    """A shell and an engine that answer in one way."""

    node = ""

    def __init__(self, how: str) -> None:
        self.how = how
        self.released = threading.Event()

    def ask(self, script: str, limit_s: float = 0) -> Reported:
        return Reported(self._answer({}, Same(RUBBISH)))

    def carry_out(self, command: str) -> int:
        return 1

    def connect(self) -> Any:
        return self._answer(PlainEngine({}), PlainEngine({name: RUBBISH for name in INFO}))

    def _answer(self, missing: Any, rubbish: Any) -> Any:
        if self.how == "hangs":
            self.released.wait()  # whoever waits for it outlasts the test
        if self.how == "fails":
            raise OSError(5, "Input/output error")
        return rubbish if self.how == "rubbish" else missing


class Same(dict[str, list[str]]):
    """The same lines under every name."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def get(self, name: str, default: Any = None) -> Any:
        return self.lines


@pytest.mark.parametrize("how", ["hangs", "fails", "rubbish", "missing"])
def test_checks_whose_probes_are_broken(how: str) -> None:
    for name, check in OFFLINE.items():
        probe = Probe(how)
        findings = examine(Examined(probe, probe.connect, RECIPE), {name: check}, 0.1)
        probe.released.set()
        assert all(isinstance(finding, Finding) and finding.rule for finding in findings), name
        assert all(finding.remedy for finding in findings if finding.severity != "info"), name
    probe = Probe(how)
    findings = examine(Examined(probe, probe.connect, RECIPE), OFFLINE, 0.5)
    probe.released.set()
    assert findings
    if how == "rubbish":  # surprises no check
        assert [finding.reason for finding in examine(Examined(probe, probe.connect, RECIPE), OFFLINE, 60)
                if "not checked" in finding.reason] == []  # fmt: skip
    if how in ("hangs", "fails"):
        names = {finding.rule.partition(".")[0] for finding in findings} | {s for f in findings for s in f.subjects}
        assert {"engine", "kernel", "disk", "gpu"} <= names
        assert any(finding.severity in ("error", "warning", "unknown") for finding in findings)


text = st.one_of(st.sampled_from(RUBBISH), st.text(max_size=40))
value = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(lines=st.lists(text, max_size=4), info=st.dictionaries(st.sampled_from(sorted(INFO)), value, max_size=9))
def test_no_answer_is_unforeseen(lines: list[str], info: dict[str, Any]) -> None:
    class Shell(Probe):
        def ask(self, script: str, limit_s: float = 0) -> Reported:
            return Reported(Same(lines))

    host = Examined(Shell("missing"), lambda: PlainEngine(info), RECIPE)
    found = examine(host, {name: check for name, check in OFFLINE.items() if name != "proxies"}, 60)
    assert [finding.reason for finding in found if "not checked" in finding.reason] == []


def test_checks_run_side_by_side_and_what_one_finds_before_it_hangs_counts(machine: FakeMachine) -> None:
    together = threading.Barrier(5, timeout=120)

    def hanging(host: Examined) -> Iterator[Finding]:
        together.wait()
        yield Finding("error", "hanging", ("a",), "found")
        raise NoAnswer("no answer within 1 s")

    findings = examine(machine.host(), {str(number): hanging for number in range(5)}, 60)
    reasons = [("error", "found"), ("warning", "not checked: no answer within 1 s")]
    assert [(finding.severity, finding.reason) for finding in findings] == reasons


def test_without_an_engine_what_needs_one_is_named_once(machine: FakeMachine) -> None:
    machine.engine = None
    (finding,) = [finding for finding in examine(machine.host(), OFFLINE, 60) if finding.rule == "not-asked"]
    assert finding.reason == "not checked: no engine answers"
    assert {"storage", "isolation", "registry"} <= set(finding.subjects)
