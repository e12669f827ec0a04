"""The result of trying one variant of a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["pass", "fail", "skip"]


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
    """`exit_code` is the failure's, as in `reprokit.errors`, or 0."""

    label: str
    steps: tuple[TrialStep, ...]
    exit_code: int = 0

    @property
    def status(self) -> Status:
        """Failed if any step did, skipped if all were."""
        found = {step.status for step in self.steps}
        return "fail" if "fail" in found else "pass" if "pass" in found else "skip"

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
    """0 without failures; their code where all agree, else 1; 3 where everything was skipped."""
    codes = {result.exit_code for result in results if result.status == "fail"}
    if not codes:
        return 3 if results and all(result.status == "skip" for result in results) else 0
    return codes.pop() if len(codes) == 1 else 1
