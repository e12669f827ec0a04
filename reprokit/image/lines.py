"""Text that arrives in blocks, as lines of bounded length: a build step's output may have no line break."""

from __future__ import annotations

from collections.abc import Iterator

# A long line keeps its beginning and its end, in equal parts: a progress bar's last state is at the end.
HALF = 32 << 10


class Lines:
    """Splits text into lines without their newlines."""

    def __init__(self) -> None:
        self._head = self._tail = ""
        self._dropped = 0

    def add(self, text: str) -> Iterator[str]:
        """The lines that end in this block."""
        *ended, unended = text.split("\n")
        for part in ended:
            self._append(part)
            yield self._line()
        self._append(unended)

    def end(self) -> Iterator[str]:
        """The line without a newline at the end of the text, if there is one."""
        if self._head:
            yield self._line()

    def _append(self, part: str) -> None:
        room = HALF - len(self._head)
        self._head += part[:room]
        if part := part[room:]:
            tail = self._tail + part
            self._tail = tail[-HALF:]
            self._dropped += len(tail) - len(self._tail)

    def _line(self) -> str:
        gap = f" [{self._dropped} left out] " if self._dropped else ""
        line = f"{self._head}{gap}{self._tail}"
        self._head, self._tail, self._dropped = "", "", 0
        return line
