"""Run all checks side by side, in bounded time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from reprokit.compat.model import SEVERITIES, Finding, Severity
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.examined import Examined, NotAsked
from reprokit.doctor.shell import clipped
from reprokit.errors import ReprokitError

_REPORT = "if this is a bug, report it with the file of `reprokit doctor --report FILE`"


class Check(Protocol):
    """One check: a module of `doctor/checks`, named after it."""

    __name__: str

    def find(self, host: Examined) -> Iterator[Finding]:
        """What is wrong, and the facts that it reports. It may hang or raise anything."""


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found, and why it did not end: `unanswered` that a probe hangs, `not_asked` that it was missing."""

    check: str
    findings: tuple[Finding, ...]
    unanswered: str = ""
    not_asked: str = ""


def examine(host: Examined, checks: Sequence[Check], limit_s: float) -> list[Finding]:
    """All findings, the worst first. Ends after `limit_s` seconds, whatever hangs."""
    host.start()
    running = [_StartedCheck(check, host, limit_s) for check in checks]
    return _ordered([each.outcome() for each in running])


class _StartedCheck:
    """A check that has been started. What it found before it hangs or fails counts."""

    def __init__(self, check: Check, host: Examined, limit_s: float) -> None:
        self._name = check.__name__.rpartition(".")[2]
        self._found: list[Finding] = []
        self._work = Bounded(lambda: self._found.extend(check.find(host)), limit_s)
        self._work.start()

    def outcome(self) -> CheckOutcome:
        failed: list[Finding] = []
        unanswered = not_asked = ""
        try:
            self._work.result()
        except NotAsked as missing:
            not_asked = str(missing)
        except NoAnswer as hanging:
            unanswered = str(hanging)
        except ReprokitError as error:
            failed.append(_failure(self._name, error.message, error.hint))
        except Exception as error:
            failed.append(_failure(self._name, f"{type(error).__name__}: {error}"))
        return CheckOutcome(self._name, (*self._found, *failed), unanswered, not_asked)


def _failure(name: str, why: str, remedy: str = "") -> Finding:
    return Finding("unknown", name, (name,), clipped(f"not checked: {why}"), remedy=remedy or _REPORT)


def _ordered(outcomes: Sequence[CheckOutcome]) -> list[Finding]:
    found = [finding for outcome in outcomes for finding in outcome.findings]
    for reason, names in _grouped((outcome.unanswered, outcome.check) for outcome in outcomes):
        remedy = "something that these checks ask hangs, or the machine is very busy; try again, then reboot"
        # Nobody knows then whether this machine can run the recipe that was asked for.
        severity: Severity = "error" if "recipe" in names else "warning"
        found.append(Finding(severity, "no-answer", names, f"not checked: {reason}", remedy=remedy))
    for reason, names in _grouped((outcome.not_asked, outcome.check) for outcome in outcomes):
        remedy = "repair that first, then run `reprokit doctor` again"
        found.append(Finding("unknown", "not-asked", names, f"not checked: {reason}", remedy=remedy))
    return sorted(dict.fromkeys(found), key=lambda finding: SEVERITIES.index(finding.severity))


def _grouped(checks: Iterable[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Reasons, each with the checks that have it."""
    groups: dict[str, tuple[str, ...]] = {}
    for reason, name in checks:
        groups[reason] = (*groups.get(reason, ()), name)
    return ((reason, names) for reason, names in groups.items() if reason)
