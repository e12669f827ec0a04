"""Several nodes as their user sees them: a line each on a terminal, what changes elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Protocol

from reprokit.formatting import Meter, clock, size
from reprokit.nodes.delivery import Progress
from reprokit.untrusted.text import console, echo

if TYPE_CHECKING:
    from rich.text import Text

_EVERY_S = 5.0
HERE = "here"


class Display(Protocol):
    """Use as a context manager. `watch` and `packing` are what `send` calls."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *_: object) -> None: ...
    def watch(self, nodes: Sequence[Progress]) -> None: ...
    def packing(self, done: int, total: int) -> None: ...


def display(stream: IO[str]) -> Display:
    """The display that fits the stream."""
    return Live(stream) if stream.isatty() else Plain(stream)


class Plain:
    """A line whenever a node begins something else, and every few seconds of the same."""

    def __init__(self, stream: IO[str], every_s: float = _EVERY_S) -> None:
        self.stream, self.every_s = stream, every_s
        self._told: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def watch(self, nodes: Sequence[Progress]) -> None:
        for node in list(nodes):
            self._tell(node.node, node.doing, _line(node))

    def packing(self, done: int, total: int) -> None:
        self._tell(HERE, "packing", f"packing, {size(done)} of {size(total)}")

    def _tell(self, name: str, doing: str, line: str) -> None:
        now = time.monotonic()
        with self._lock:
            before, when = self._told.get(name, ("", 0.0))
            if doing == before and now - when < self.every_s:
                return
            self._told[name] = (doing, now)
            echo(f"{name}: {line}", file=self.stream)


class Live:
    """A line each, drawn again and again."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.live import Live as RichLive

        self._console = console(stream)
        self._nodes: Sequence[Progress] = ()
        self._packed = ""
        self._meters: dict[str, Meter] = {}
        self._live = RichLive(console=self._console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def watch(self, nodes: Sequence[Progress]) -> None:
        self._nodes = nodes

    def packing(self, done: int, total: int) -> None:
        self._packed = f"packing, {size(done)} of {size(total)}" if done < total else ""

    def _render(self) -> Text:
        from rich.text import Text

        nodes, now = list(self._nodes), time.monotonic()
        width = max([len(node.node) for node in nodes], default=0)
        lines = [f"{HERE:{width}}  {self._packed}"] if self._packed else []
        for node in nodes:
            rate = self._meters.setdefault(node.node, Meter()).rate(now, node.sent)
            lines.append(f"{node.node:{width}}  {_line(node, rate)}")
        return Text("\n".join(line[: self._console.width] for line in lines), no_wrap=True)


def _line(node: Progress, rate: float = 0) -> str:
    if node.doing != "sending":
        return node.doing
    packed = f"sending, {size(node.done)} of {size(node.total)}{'' if node.whole else ' so far'}"
    if rate < 1:
        return packed
    left = f", {clock((node.total - node.done) / rate)} left" if node.whole else ""
    return f"{packed}, {size(rate)}/s{left}"
