"""Places in a log: a part of a line, without what loggers put before it, and its neighbours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os.path import commonprefix

from reprokit.explain.blocks import LogBlock
from reprokit.untrusted.terminal import escaped

# Lines are examined up to this length around the text that made them suspicious.
LONGEST = 4096
_SHOWN = 400
_BEFORE = 3
_AFTER = 8
# How the parts of an event in a JSON stream begin that hold no text of the log.
_WRAPPING = (b'{"', b'"', b"}", b'stdout"', b'stderr"')
# Prefixes that builders, CI services, loggers, pytest and launchers of processes give to each line.
_PREFIX = re.compile(
    rb"(?:\s+|E {3,}(?=\S)|#\d+ (?:\d+\.\d+ )?"
    rb"|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?:? {1,2}|>+ +|\| ?|\d+\.\d+ (?=\S)"
    rb"|\[\d+/\d+\] |\d+(?:: | {3,})|\[rank\d+\]: ?|\[\d{4}-\d\d-\d\dT[\d:.]+Z?\] |"
    rb"(?:\w{3} \w{3} +\d+ [\d:]{8} \d{4})?\[\d+(?:,\d+)?\]<std\w+>: ?|\([\w.-]+ pid=\d+[^)]{0,80}\) "
    rb"|[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,60}\] |[EF]\d{4} [\d:.]+ +\d+ [^\]]{1,80}\] |[\w.-]{1,60}-\d+ +\| ?"
    rb"|(?:ERRO|FATA|PANI)\[[^\]]{1,40}\] ?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} [\w.@-]{1,60}(?:\[\d+\])?: "
    rb"|\[E [\d-]+ [\d:.,]+ [\w.-]{1,60}(?: [\w.-]{1,60}:\d+)?\] |\(raylet\) |\(pid=\w+(?:, ip=[\d.]+)?\) "
    rb"|\[[\d-]+ [\d:,]+ E \d+ \d+\] |[\d.:+-]+T[\d.:+-]+Z? std(?:out|err) F |\d\d:\d\d:\d\d {1,2}"
    rb"|Warning +[A-Z]\w+ +\d\S*(?: \([^)]{1,40}\))? +[a-z-]+(?:, \S+)? +(?:Error: )?"
    rb"|time=\"[^\"]{1,40}\" level=(?:error|fatal) msg=\"|(?:slurmstepd\S*|srun): error: (?:pyxis: +)?"
    rb"|\xe2\x94\x82 ?|\xe2[\x94\x95][\x9c\xb0]\xe2\x94\x80(?:>|\xe2\x96\xb6) ?|\xc3\x97 "
    rb"|x (?=(?:Failed|No) )|[|`]-> )+"
)
# Includes the line numbers that spack prints before the lines of a log.
_STAMP = re.compile(rb"(?m)^(?:#\d+ (?:\d+\.\d+ )?| +(?:>> )?\d+ {4}|\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z\]? )+")
# What a shell, `set -x` or a builder prints of a command: a prompt, `+`, `Step 3/9 : RUN`, `#12 [3/9] RUN`, `> RUN`,
# `set -e; ...`, and `[3/9] NAME: RUN` of reprokit.
_COMMAND = re.compile(
    rb"(?:#\d+ |>+ )?(?:\[(?:[\w./-]+ )?\d+/\d+\] |Step \d+/\d+ : |STEP \d+(?:/\d+)?: )?"
    rb"(?:(?!error|fatal|warning)[a-z][\w-]*: )?(?:RUN|COPY|ADD|FROM|ENV|CMD|ARG|SHELL) (?!failed)\S"
    rb"|set -[a-z]*e[a-z]*[; ]|Step \d+/\d+ : |STEP \d+(?:/\d+)?: |\$ \S|\+{1,4} \S"
    rb"|(?:\([\w.-]+\) )?\[?[\w.-]+@[\w.-]+[: ][^\s#$]*\]?[#$] "
    rb"|# (?=[a-z][\w./-]*(?: |$))(?![^\n]*(?:: |\d$))"
)
_NUMBER = re.compile(rb"(?:0x)?[0-9a-f]*\d[0-9a-f]*", re.IGNORECASE)
# Lines at a block's end from which a prefix of an unknown tool is learnt, and how long it may be.
_LEARNT_FROM = 12
_LONGEST_PREFIX = 80
_DIGITS = re.compile(rb"\d+")
_TO_BOUNDARY = re.compile(rb".*[\]|:>)] *")


def unknown_prefix(block: LogBlock) -> re.Pattern[bytes] | None:
    """The prefix of a tool that `_PREFIX` does not know: what all of the last lines begin with, but for digits."""
    rows = block.text[max(block.start, block.end - LONGEST) : block.end].rstrip(b"\n").split(b"\n")[1:]
    rows = rows[-_LEARNT_FROM:]
    alike = [_DIGITS.sub(b"0", row[:_LONGEST_PREFIX]) for row in rows]
    boundary = _TO_BOUNDARY.match(commonprefix(alike) or b"")  # noqa: RUF071 - of texts, not of paths
    if boundary is None or len({*alike}) < 3 or _prefix(rows[-1]) >= boundary.end():
        return None
    return re.compile(re.escape(boundary[0]).replace(b"0", rb"\d+"))


@dataclass(frozen=True)
class Place:
    """A part of a line in a block."""

    block: LogBlock
    start: int
    end: int
    line: int
    before: re.Pattern[bytes] | None = None  # an unknown tool's prefix

    @property
    def text(self) -> bytes:
        part = self.block.text[self.start : self.end]
        return part[_prefix(part) :].rstrip()

    @property
    def is_command(self) -> bool:
        """Whether the line repeats a command, which holds words of errors that did not happen."""
        return any(_COMMAND.match(form) for form in (self.block.text[self.start : self.end].lstrip(), self.text))

    @property
    def bare(self) -> bytes:
        """The text without an unknown tool's prefix, too."""
        part = self.block.text[self.start : self.end]
        prefix = self.before.match(part) if self.before else None
        if not prefix:
            return self.text
        part = part[prefix.end() :]
        return part[_prefix(part) :].rstrip()

    def around(self, lines: int) -> bytes:
        """The line between its neighbours; again without an unknown tool's prefix, where there is one."""
        text, start, end = self.block.text, self.start, self.end
        for _ in range(lines + 1):
            start = text.rfind(b"\n", max(0, start - LONGEST), max(0, start))
            if start < 0:
                start = max(0, self.start - lines * LONGEST)
                break
        for _ in range(lines + 1):
            after = text.find(b"\n", end, end + LONGEST)
            end = after + 1 if after >= 0 else min(len(text), end + LONGEST)
        part: bytes = text[start + 1 if start > 0 else 0 : end]
        rows = [*map(_parts, part.split(b"\n"))]
        if self.before:
            rows += [b"", *(row[prefix.end() :] for row in rows if (prefix := self.before.match(row)))]
        return _STAMP.sub(b"", b"\n".join(rows))

    def context(self) -> list[tuple[int, str]]:
        """The lines around this one with their numbers, this one among them."""
        text, shown = self.block.text, [(self.line, readable(self.text))]
        start, end = self.start, self.end
        for step in range(1, _AFTER + 1):
            end = text.find(b"\n", end)
            if end < 0 or end + 1 >= len(text):
                break
            after = text.find(b"\n", end + 1, end + LONGEST)
            shown.append((self.line + step, readable(text[end + 1 : after if after >= 0 else end + LONGEST])))
            end += 1
        for step in range(1, _BEFORE + 1):
            start = text.rfind(b"\n", 0, max(start, 0))
            if start < 0:
                break
            before = text.rfind(b"\n", max(0, start - LONGEST), start)
            shown.insert(0, (self.line - step, readable(text[before + 1 : start])))
        return shown


def part_of_line(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The part of a line, between newlines or carriage returns, that holds `text[start:end]`."""
    lowest, highest = max(0, start - LONGEST), min(len(text), end + LONGEST)
    begin = max(text.rfind(b"\n", lowest, start), text.rfind(b"\r", lowest, start)) + 1
    stops = [stop for stop in (text.find(b"\n", end, highest), text.find(b"\r", end, highest)) if stop >= 0]
    return begin or lowest, min(stops, default=highest)


def normalised(line: bytes) -> bytes:
    """A line without what differs from run to run: numbers, times, addresses."""
    return _NUMBER.sub(b"0", line.strip())


def _prefix(part: bytes) -> int:
    match = _PREFIX.match(part)
    return match.end() if match else 0


def readable(part: bytes, most: int = _SHOWN) -> str:
    """A line as it may be shown: bounded, its longest part alone, without control characters."""
    return escaped(shortened(longest(part[-LONGEST:]).strip().decode("utf-8", "replace"), most))


def unstamped(text: str) -> str:
    """A line without the step's number and the times that builders put before it."""
    return _STAMP.sub(b"", text.encode()).decode().strip()


def longest(line: bytes) -> bytes:
    """The longest part between carriage returns, without what holds the text of an event in a JSON stream."""
    return max((part for part in line.split(b"\r") if not part.startswith(_WRAPPING)), key=len, default=line)


def _parts(line: bytes) -> bytes:
    """The text of an event in a JSON stream, which has its lines between carriage returns; of others what is shown."""
    parts = [part for part in line.split(b"\r") if part]
    if parts and parts[0].startswith(b"{"):
        return b"\n".join(part for part in parts if part != b"{" and not part.startswith(_WRAPPING))
    return parts[-1] if parts else b""


def shortened(text: str, most: int) -> str:
    """The text; of a longer one its beginning and its end, which gives the reason."""
    return text if len(text) <= most else f"{text[: most // 4]} … {text[-most * 3 // 4 + 5 :]}"
