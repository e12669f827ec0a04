"""The first causal lines of a failed build: what broke, not what broke because of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

# Ordered by how surely a line is the cause. Those of our own blocks come first: they name what was expected.
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
# Consequences, and lines that look like a cause and are none.
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


@dataclass
class Extractor:
    """Fed with the lines of a step as they come; holds its first causes, however long the step's output is."""

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
        """The lines to show: assertions, else the network's faults, else causes, else the end of the output.

        apt goes on after a failed download, so the package that "cannot be located" is a consequence.
        """
        found = self.assertions or self.network or self.causes or [line for line in self.tail if line.strip()]
        return list(dict.fromkeys(found))[:_KEPT]


def causes(lines: Iterable[str]) -> list[str]:
    """The first causal lines of a step's output."""
    extractor = Extractor()
    for line in lines:
        extractor.feed(line)
    return extractor.first()


def _continues(line: str) -> bool:
    """Whether a line belongs to the cause before it: a compiler's excerpt, CMake's indented words."""
    return bool(re.match(r"\s+(\d+ )?\||\s{2,}\S", line))


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()[:_LONGEST]
