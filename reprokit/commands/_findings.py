"""Findings as `check` and `doctor` print them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reprokit.formatting import counted
from reprokit.tables import paragraph
from reprokit.untrusted.terminal import echo_labelled

if TYPE_CHECKING:
    from reprokit.compat.facts import Facts
    from reprokit.compat.model import Finding


def as_json(facts: Facts, finding: Finding) -> dict[str, Any]:
    """One finding; its sources are citations."""
    return {
        "severity": finding.severity,
        "rule": finding.rule,
        "subjects": list(finding.subjects),
        "reason": finding.reason,
        "nearest": list(finding.nearest),
        "remedy": finding.remedy,
        "sources": [facts.cite(source) for source in finding.sources],
    }


def show(facts: Facts, findings: Sequence[Finding], sources: bool = False) -> None:
    """Print findings with their remedies, and the number of sources, or with `sources` all of them."""
    times = " \u00d7 " if (sys.stdout.encoding or "").lower().startswith("utf") else " x "
    for finding in findings:
        echo_labelled(f"{finding.severity:8}", times.join(finding.subjects))
        cited = finding.sources if finding.severity != "info" else ()
        folded = f" [{counted(len(cited), 'source')}]" if cited and not sources else ""
        _indented(finding.reason + folded)
        if finding.nearest:
            _indented(f"nearest: {', or '.join(finding.nearest)}")
        elif finding.remedy:
            _indented(f"remedy: {finding.remedy}")
        for source in cited if sources else ():
            _indented(f"source: {facts.cite(source)}")


def summary(findings: Sequence[Finding]) -> str:
    """`1 error, 2 warnings`, or `ok`."""
    counts = [(s, sum(f.severity == s for f in findings)) for s in ("error", "warning", "unknown")]
    plural = {"error": "errors", "warning": "warnings", "unknown": "unknown"}
    parts = [f"{n} {s if n == 1 else plural[s]}" for s, n in counts if n]
    return ", ".join(parts) or "ok"


def _indented(text: str) -> None:
    paragraph(text, " " * 9, " " * 11)
