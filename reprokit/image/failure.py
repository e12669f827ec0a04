"""A failed step as one error: its block, the first lines that name the cause, and who can fix it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from reprokit.errors import EngineError, ReprokitError, SourceError, WorkFailed
from reprokit.image.events import Failed
from reprokit.image.progress import brief
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway

# The assertions of blocks come first: they name what was expected.
_ASSERTION = re.compile(r"^reprokit: block ")
_CAUSES = re.compile(
    r"No space left on device"
    r"|: (fatal )?error:|^error:|^error\[E\d+\]"
    r"|^CMake Error|\bundefined reference to\b|: undefined symbol"
    r"|^(E|Err): |^Err:\d+ |^ERROR: |^fatal: |^nvcc fatal"
    r"|^ld(\.\w+)?: |collect2: error"
    r"|command not found$|: not found$|: No such file or directory$|: Permission denied$"
    r"|^(\w+\.)*\w*(Error|Exception|Exit|Interrupt)(: |$)"
    r"|^Segmentation fault|^Killed$|: Killed|^Bus error|Illegal instruction",
)
# Consequences, and lines that look like a cause but are not.
_NOISE = re.compile(
    r"^(g?make|ninja)(\[\d+\])?: |^ninja: build stopped|subprocess\.CalledProcessError|Waiting for unfinished jobs"
    r"|debconf: |^W: |-- Configuring incomplete|-- (Looking|Performing)|collect2: error: ld returned"
    r"|error: subprocess-exited-with-error|^ERROR: No matching distribution found"
)
_NETWORK = re.compile(
    r"reprokit gateway: |Could not resolve|Temporary failure (in name resolution|resolving)|Failed to fetch"
    r"|Connection (refused|timed out|reset by peer)|Unable to connect|unable to access 'http|HTTP error \d\d\d"
    r"|HTTP Error 5\d\d|NewConnectionError|Network is unreachable"
)
_NO_SPACE = re.compile(r"No space left on device", re.IGNORECASE)
_KEPT = 5
_CONTEXT = 2
_LONGEST = 400
_LONGEST_STEP = 100


@dataclass
class Extractor:
    """Keeps the first causes in the output of a step, however long it is."""

    assertions: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    network: list[str] = field(default_factory=list)
    no_space: bool = False
    _following: int = 0

    def feed(self, line: str) -> None:
        line = _plain(line)
        self.tail = [*self.tail[-_KEPT:], line]
        if len(self.network) < _KEPT and _NETWORK.search(line):
            self.network.append(line)
        self.no_space = self.no_space or _NO_SPACE.search(line) is not None
        if _ASSERTION.search(line):
            self.assertions.append(line)
        elif len(self.causes) < _KEPT and _CAUSES.search(line) and not _NOISE.search(line):
            self.causes.append(line)
            self._following = _CONTEXT
        elif self._following and self.causes and len(self.causes) < _KEPT and _continues(line):
            self.causes.append(line)
            self._following -= 1
        else:
            self._following = 0

    def first(self) -> list[str]:
        """The lines to show: assertions, else network errors, else causes, else the end of the output.

        apt continues after a failed download, so a package that it "cannot locate" is a consequence.
        """
        found = self.assertions or self.network or self.causes or [line for line in self.tail if line.strip()]
        return list(dict.fromkeys(found))[:_KEPT]


def _continues(line: str) -> bool:
    """Whether a line continues the cause before it: a compiler's excerpt, or an indented line of CMake."""
    return bool(re.match(r"\s+(\d+ )?\||\s{2,}\S", line))


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()[:_LONGEST]


def explain(target: Target, end: Failed, message: str, extractor: Extractor, gateway: Gateway) -> ReprokitError:
    """EngineError if the disk is full, SourceError for the network, else WorkFailed."""
    step = brief(end.step)
    step = step if len(step) <= _LONGEST_STEP else step[: _LONGEST_STEP - 3] + "..."
    lines = extractor.first() or message.splitlines()
    text = "\n  ".join([f"{target.label}: block {end.block} failed: {step}", *lines])
    if extractor.no_space or "no space left" in message.lower():
        return EngineError(
            f"the engine's disk is full\n  {text}", hint="free space there: `docker system df` shows what uses it"
        )
    if gateway.refused:
        text += "".join(f"\n  undeclared download: {name}" for name in sorted(gateway.refused))
        remedy = f"add it to the recipe (`files:` or `sources:`) or run `reprokit build --record {target.label}`"
        return WorkFailed(text, hint=remedy)
    if extractor.assertions:
        return WorkFailed(text)
    if gateway.missing:
        names = ", ".join(sorted(gateway.missing))
        return WorkFailed(text, hint=f"the recipe does not name what the build requested: {names}")
    if extractor.network and not gateway.requests:
        return WorkFailed(
            text,
            hint="no request reached reprokit's gateway: a step's only network is the proxy of `http_proxy`",
        )
    if extractor.network:
        return SourceError(text, hint="run it again: finished steps are in the layer cache")
    return WorkFailed(text)
