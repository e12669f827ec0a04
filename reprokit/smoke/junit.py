"""Results as JUnit XML, as GitHub's reporters, GitLab and Jenkins read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from reprokit.smoke.result import TrialResult, TrialStep

# XML 1.0 cannot contain these, not even escaped; a command's output can.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def report(results: Sequence[TrialResult]) -> bytes:
    """An XML document with one suite a variant and one case a step."""
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
    return xml.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


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
