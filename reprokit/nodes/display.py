"""The progress of several nodes: a line each on a terminal, changes only elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Protocol

from reprokit.formatting import Meter, clock, size
from reprokit.nodes.delivery import NodeProgress
from reprokit.untrusted.text import console, echo

if TYPE_CHECKING:
    from rich.text import Text

_EVERY_S = 5.0
HERE = "here"


class NodesDisplay(Protocol):
    """A context manager; `send` calls `watch` and `packing`."""

    def __enter__(self) -> NodesDisplay: ...
    def __exit__(self, *_: object) -> None: ...
    def watch(self, nodes: Sequence[NodeProgress]) -> None: ...
    def packing(self, done: int, total: int) -> None: ...


def display(stream: IO[str]) -> NodesDisplay:
    """The display for a terminal or for another stream."""
    return LiveNodes(stream) if stream.isatty() else PlainNodes(stream)


class PlainNodes:
    """Prints a line when a node changes its work, and every few seconds otherwise."""

    def __init__(self, stream: IO[str], every_s: float = _EVERY_S) -> None:
        self.stream, self.every_s = stream, every_s
        self._printed: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> PlainNodes:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def watch(self, nodes: Sequence[NodeProgress]) -> None:
        for node in list(nodes):
            self._print(node.node, node.doing, _line(node))

    def packing(self, done: int, total: int) -> None:
        self._print(HERE, "packing", f"packing, {size(done)} of {size(total)}")

    def _print(self, name: str, doing: str, line: str) -> None:
        now = time.monotonic()
        with self._lock:
            before, when = self._printed.get(name, ("", 0.0))
            if doing == before and now - when < self.every_s:
                return
            self._printed[name] = (doing, now)
            echo(f"{name}: {line}", file=self.stream)


class LiveNodes:
    """One line a node, redrawn."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.live import Live

        self._console = console(stream)
        self._nodes: Sequence[NodeProgress] = ()
        self._packed = ""
        self._meters: dict[str, Meter] = {}
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveNodes:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def watch(self, nodes: Sequence[NodeProgress]) -> None:
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


def _line(node: NodeProgress, rate: float = 0) -> str:
    if node.doing != "sending":
        return node.doing
    packed = f"sending, {size(node.done)} of {size(node.total)}{'' if node.complete else ' so far'}"
    if rate < 1:
        return packed
    left = f", {clock((node.total - node.done) / rate)} left" if node.complete else ""
    return f"{packed}, {size(rate)}/s{left}"
