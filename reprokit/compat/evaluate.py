"""From a stack to its findings. Pure: the same facts and the same stack give the same list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reprokit.compat.facts import Facts
from reprokit.compat.model import SEVERITIES, Finding, Stack
from reprokit.compat.nearest import nearest
from reprokit.compat.rule import CompatRule
from reprokit.compat.rules import RULES
from reprokit.compat.view import View


def evaluate(facts: Facts, stack: Stack) -> list[Finding]:
    """All findings on a stack: errors first, then warnings, unknown, info; each with the nearest pins that end it."""
    view = View(facts, stack)
    found = [
        replace(finding, nearest=nearest(rule, finding, view, judge)) if offers(finding) else finding
        for rule, finding in judge(view)
    ]
    return sorted(dict.fromkeys(found), key=lambda finding: SEVERITIES.index(finding.severity))


def offers(finding: Finding) -> bool:
    """Whether another pin is worth looking for."""
    return finding.severity in ("error", "warning")


def judge(view: View, only: CompatRule | None = None) -> Iterator[tuple[CompatRule, Finding]]:
    """Each rule with its findings, without `nearest`; of one rule where `only` names it."""
    for rule in (only,) if only else RULES:
        if view.stack.purpose in rule.purposes:
            for problem in rule.check(view):
                subjects, verdict = problem.subjects, problem.verdict
                severity, reason = verdict.severity, verdict.reason
                if severity == "error" and any(g.label in subjects for g in view.stack.gpus if not g.verified):
                    severity, reason = (
                        "warning",
                        f"{reason} (its capability is not verified: ask nvidia-smi for compute_cap)",
                    )
                yield rule, Finding(severity, rule.id, subjects, reason, (), verdict.sources)
