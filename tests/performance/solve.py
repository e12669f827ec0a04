"""Solve every variant of the bundled recipes for every GPU of the facts: is it right, and how long does it take?

A stack must pass `check`. A core is tried by brute force: all values of its pins, or 20 000 random ones where there are
more, beside random values of the other pins. GPUs that no rule can tell apart without a driver are tried once. Times
are those of the processor.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprokit.compat.evaluate import judge
from reprokit.compat.facts import bundled
from reprokit.compat.model import KnownGpu, Stack
from reprokit.compat.solve import choices, solve
from reprokit.compat.stack import stack_of
from reprokit.compat.view import View
from reprokit.recipe.find import recipe_names, targets

FACTS = bundled()
_MOST = 20_000


def gpus() -> list[KnownGpu]:
    found: dict[tuple[object, ...], KnownGpu] = {}
    for group in FACTS.gpus.groups:
        major, minor = map(int, group.cc.split("."))
        gpu = KnownGpu(group.names[0], (major, minor), group.line, not group.unverified)
        found.setdefault((gpu.capability, gpu.verified), gpu)
    return list(found.values())


def passes(stack: Stack, pins: dict[str, str]) -> bool:
    return all(f.severity != "error" for _, f in judge(View(FACTS, replace(stack, pins=pins))))


def doubts(stack: Stack, pins: dict[str, str]) -> bool:
    return any(f.doubtful for _, f in judge(View(FACTS, replace(stack, pins=pins))))


def completions(stack: Stack, core: list[str]) -> Iterator[dict[str, str]]:
    """Stacks with all values of the core's pins (or random ones), and random values of the others."""
    draw, view = random.Random(0), View(FACTS, stack)
    offered = {name: [choice.text for choice in choices(view, name)] for name in stack.pins}
    every = product(*(offered[name] for name in core))
    if prod(len(offered[name]) for name in core) > _MOST:
        every = ([draw.choice(offered[name]) for name in core] for _ in range(_MOST))  # type: ignore[assignment]
    for values in islice(every, _MOST):
        others = {name: draw.choice([stack.pins[name], *texts]) for name, texts in offered.items()}
        yield {**others, **dict(zip(core, values, strict=True))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="recipes; all by default")
    parser.add_argument("--gpus", type=int, default=None, help="only the first GPUs")
    chosen = parser.parse_args()
    wrong, times, unchanged, changed, cores, doubtful = [], [], 0, 0, 0, 0
    for target in (t for name in chosen.names or recipe_names() for t in targets(name)):
        slowest = 0.0
        for gpu in gpus()[: chosen.gpus]:
            stack = stack_of(target.variant, (gpu,))
            start = time.process_time()
            solution = solve(FACTS, stack)
            took = time.process_time() - start
            times.append(took)
            slowest = max(slowest, took)
            if solution.pins is not None:
                unchanged, changed = unchanged + (not solution.changes), changed + bool(solution.changes)
                right = passes(stack, solution.pins)
                if solution.changes:
                    doubtful += doubts(stack, solution.pins)
            else:
                cores += 1
                core = [c.partition("=")[0] for c in solution.core if c.partition("=")[0] in stack.pins]
                right = not any(passes(stack, pins) for pins in completions(stack, core))
            if not right:
                wrong.append(f"{target.label} on {gpu.label}: {solution.changes or solution.core}")
        print(f"{target.label:40} slowest {slowest:.2f} s", flush=True)
    times.sort()
    found = f"{changed} with changes ({doubtful} doubtful), {cores} have a core"
    print(f"{len(times)} stacks: {unchanged} fit as they are, {found}")
    print(f"wrong: {len(wrong)}", *wrong[:20], sep="\n  ")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"median {times[len(times) // 2]:.3f} s, slowest {times[-1]:.2f} s, {memory} MB")
    return 1 if wrong or times[-1] > 2 else 0


if __name__ == "__main__":
    sys.exit(main())
