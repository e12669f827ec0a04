"""A Dockerfile's instructions, found again in what BuildKit prints of them."""

from __future__ import annotations

import re
from itertools import takewhile

from reprokit.image.events import Step
from reprokit.image.render import Rendered


class Instructions:
    """BuildKit numbers steps by stage and skips what makes no layer; here they keep the Dockerfile's numbers."""

    def __init__(self, rendered: Rendered) -> None:
        self.rendered = rendered
        lines = rendered.dockerfile.splitlines()
        ends = [*(start - 1 for start in rendered.steps[1:]), len(lines)]
        self.texts = [_joined(lines[start - 1 : end]) for start, end in zip(rendered.steps, ends, strict=True)]
        self.stages: list[str] = []
        stage = ""
        for text in self.texts:
            if match := re.match(r"FROM \S+(?: AS (\S+))?$", text, re.IGNORECASE):
                number = sum(t.upper().startswith("FROM ") for t in self.texts[: len(self.stages)])
                stage = match[1] or f"stage-{number}"
            self.stages.append(stage)

    def step(self, stage: str, text: str) -> Step:
        """The step that BuildKit calls `text` in `stage` (empty where the Dockerfile has only one)."""
        text = " ".join(text.split())
        inside = [i for i in range(len(self.texts)) if not stage or self.stages[i] == stage]
        # BuildKit shows variables expanded, so a text is found by what stands before and after them.
        index = max(inside or range(len(self.texts)), key=lambda i: _likeness(self.texts[i], text))
        return Step(index + 1, len(self.texts), self.rendered.block_of_step(index + 1), text)


def _likeness(one: str, other: str) -> int:
    """How many characters two texts share at their beginning and end; equal ones share the most."""
    if one == other:
        return 2 * len(one) + 1
    return _shared(one, other) + _shared(one[::-1], other[::-1])


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _joined(lines: list[str]) -> str:
    kept = [line.rstrip().removesuffix("\\") for line in lines if not line.lstrip().startswith("#")]
    return " ".join(" ".join(kept).split())
