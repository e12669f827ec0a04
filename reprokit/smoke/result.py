"""The result of trying one variant of a recipe, and a report of several as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.etree import ElementTree as xml

from reprokit.errors import SourceError

Status = Literal["pass", "fail", "skip"]
# Characters that XML 1.0 cannot contain, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class TrialStep:
    """One attempt. `reason` is one line; `output` is that of a failed command."""

    name: str
    status: Status
    seconds: float = 0.0
    reason: str = ""
    output: str = ""


@dataclass(frozen=True)
class TrialResult:
    """`exit_code` is that of the failure, as in `reprokit.errors`, or 0."""

    label: str
    steps: tuple[TrialStep, ...]
    exit_code: int = 0

    @property
    def status(self) -> Status:
        """Failed if any step did, skipped if all were."""
        statuses = {step.status for step in self.steps}
        return "fail" if "fail" in statuses else "pass" if "pass" in statuses else "skip"

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def reason(self) -> str:
        """The first failure with its reason, else the first reason for a skip."""
        for step in self.steps:
            if step.status == "fail":
                return f"{step.name}: {step.reason}"
        skipped = [step for step in self.steps if step.status == "skip"]
        if len(skipped) == len(self.steps):
            return skipped[0].reason if skipped else ""
        return f"skipped {len(skipped)}: {skipped[0].reason}" if skipped else ""

    def line(self) -> str:
        """`pass  featgraph:cpu  12.3 s  reason`, without a line break."""
        parts = [self.status, self.label, f"{self.seconds:.1f} s", " ".join(self.reason.split())]
        return "  ".join(part for part in parts if part)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.label,
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "reason": self.reason,
            "steps": [vars(step) for step in self.steps],
        }


def exit_code(results: list[TrialResult]) -> int:
    """0 without failures; 4 if all came from the network, else 1; 3 if everything was skipped."""
    codes = {result.exit_code for result in results if result.status == "fail"}
    if not codes:
        return 3 if results and all(result.status == "skip" for result in results) else 0
    return SourceError.exit_code if codes == {SourceError.exit_code} else 1


def junit_report(results: Sequence[TrialResult]) -> bytes:
    """JUnit XML as GitHub's reporters, GitLab and Jenkins read it: one suite a variant, one case a step."""
    counts = _counts([step for result in results for step in result.steps])
    root = xml.Element("testsuites", {"name": "reprokit smoke", **counts})
    for result in results:
        suite = xml.SubElement(root, "testsuite", {"name": _legal(result.label), **_counts(result.steps)})
        for step in result.steps:
            # Readers group cases by the dots of their class name.
            name = _legal(result.label.replace(".", "_").replace(":", "."))
            case = xml.SubElement(suite, "testcase", classname=name, name=_legal(step.name), time=f"{step.seconds:.3f}")
            if step.status == "fail":
                xml.SubElement(case, "failure", message=_legal(step.reason)).text = _legal(step.output or step.reason)
            elif step.status == "skip":
                xml.SubElement(case, "skipped", message=_legal(step.reason))
    xml.indent(root)
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _counts(steps: Sequence[TrialStep]) -> dict[str, str]:
    return {
        "tests": str(len(steps)),
        "failures": str(sum(step.status == "fail" for step in steps)),
        "errors": "0",
        "skipped": str(sum(step.status == "skip" for step in steps)),
        "time": f"{sum(step.seconds for step in steps):.3f}",
    }


def _legal(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
