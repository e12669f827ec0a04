"""Run all checks side by side, in bounded time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from reprokit.compat.model import SEVERITIES, Finding, Severity
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.examined import Examined, NotAsked
from reprokit.doctor.shell import clipped
from reprokit.errors import ReprokitError

# Yields faults and facts. It may hang or raise anything.
Check = Callable[[Examined], Iterator[Finding]]
_REPORT = "if this is a bug, report it with the file of `reprokit doctor --report FILE`"
_TRY_AGAIN = "something that these checks ask hangs, or the machine is very busy; try again, then reboot"


@dataclass
class _Outcome:
    """The findings of a check. A check without an end has a `silent` probe, or a `missing` requirement."""

    findings: list[Finding] = field(default_factory=list)
    silent: str = ""
    missing: str = ""


def examine(host: Examined, checks: Mapping[str, Check], limit_s: float) -> list[Finding]:
    """All findings, the worst first. Ends within `limit_s` seconds even if checks hang."""
    host.start()
    started = {name: _started(check, host, limit_s) for name, check in checks.items()}
    outcomes = {name: _outcome(name, findings, work) for name, (findings, work) in started.items()}
    findings = [finding for outcome in outcomes.values() for finding in outcome.findings]
    for reason, names in _grouped({name: outcome.silent for name, outcome in outcomes.items()}):
        # An unjudged recipe may not run on this machine.
        severity: Severity = "error" if "recipe" in names else "warning"
        findings.append(Finding(severity, "no-answer", names, f"not checked: {reason}", remedy=_TRY_AGAIN))
    for reason, names in _grouped({name: outcome.missing for name, outcome in outcomes.items()}):
        remedy = "repair that first, then run `reprokit doctor` again"
        findings.append(Finding("unknown", "not-asked", names, f"not checked: {reason}", remedy=remedy))
    return sorted(dict.fromkeys(findings), key=lambda finding: SEVERITIES.index(finding.severity))


def _started(check: Check, host: Examined, limit_s: float) -> tuple[list[Finding], Bounded[None]]:
    """The findings that the check adds until it ends, hangs or fails, and its work."""
    findings: list[Finding] = []
    work = Bounded(lambda: findings.extend(check(host)), limit_s)
    work.start()
    return findings, work


def _outcome(name: str, findings: list[Finding], work: Bounded[None]) -> _Outcome:
    silent = missing = why = ""
    remedy = _REPORT
    try:
        work.result()
    except NotAsked as error:
        missing = str(error)
    except NoAnswer as error:
        silent = str(error)
    except ReprokitError as error:
        why, remedy = error.message, error.hint or _REPORT
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    failure = [Finding("unknown", name, (name,), clipped(f"not checked: {why}"), remedy=remedy)] if why else []
    return _Outcome([*findings, *failure], silent, missing)


def _grouped(reasons: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Group checks by reason."""
    for reason in dict.fromkeys(filter(None, reasons.values())):
        yield reason, tuple(name for name, other in reasons.items() if other == reason)
