"""How often `reprokit check` is right: outcomes that people reported (outcomes.yaml) against its verdict.

A stack fails for check if it finds an error.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, Stack
from reprokit.compat.stack import parse_pins

FACTS = bundled()
OUTCOMES = Path(__file__).with_name("outcomes.yaml")
RIGHT, FALSE_ERRORS = 0.95, 0.03


@dataclass(frozen=True)
class Outcome:
    stack: Stack
    works: bool
    text: str

    def errors(self) -> list[Finding]:
        return [f for f in evaluate(FACTS, self.stack) if f.severity == "error"]


def outcomes(file: Path) -> list[Outcome]:
    rows = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Outcome(_stack(row), row["works"], f"{row['pins']} {row.get('gpu', '')} {row['source']}") for row in rows]


def _stack(row: dict[str, Any]) -> Stack:
    gpu = parse_gpu(FACTS, row["gpu"]) if "gpu" in row else None
    return Stack(
        parse_pins(row["pins"]), row.get("for", "compile"), (gpu,) if gpu else (), row.get("driver"),
        cxx_standard=row.get("cxx"), needs_gpu="required" if gpu else "optional",
    )  # fmt: skip


def score(chosen: list[Outcome], show: bool) -> bool:
    right = false_errors = 0
    for outcome in chosen:
        errors = outcome.errors()
        right += bool(errors) != outcome.works
        false_errors += bool(errors) and outcome.works
        if show and bool(errors) == outcome.works:
            print("false error:" if errors else "missed:", outcome.text, *(e.rule for e in errors[:2]))
    works = sum(outcome.works for outcome in chosen)
    share, wrong = right / len(chosen), false_errors / len(chosen)
    print(f"{len(chosen)} outcomes, {works} work: {share:.1%} right, {wrong:.1%} false errors")
    return share >= RIGHT and wrong <= FALSE_ERRORS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missed", action="store_true", help="print what check gets wrong")
    parser.add_argument("file", nargs="?", type=Path, default=OUTCOMES, help="outcomes in the form of outcomes.yaml")
    chosen = parser.parse_args()
    return int(not score(outcomes(chosen.file), chosen.missed))


if __name__ == "__main__":
    sys.exit(main())
