"""The progress of several nodes: a line each on a terminal, changes only elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from reprokit.display import ProgressDisplay
from reprokit.formatting import Meter, clock, size
from reprokit.nodes.delivery import Delivery

if TYPE_CHECKING:
    from rich.text import Text

HERE = "here"


class NodesDisplay(ProgressDisplay):
    """`send` calls `nodes` and `packing`, from several threads."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._nodes: Sequence[Delivery] = ()
        self._packed = ""
        self._meters: dict[str, Meter] = {}

    def nodes(self, nodes: Sequence[Delivery]) -> None:
        self._nodes = nodes
        for node in list(nodes):
            self.often(node.node.name, f"{node.node.name}: {_line(node)}", node.doing)

    def packing(self, done: int, total: int) -> None:
        line = f"packing, {size(done)} of {size(total)}"
        self._packed = line if done < total else ""
        self.often(HERE, f"{HERE}: {line}", "packing")

    def render(self) -> Text:
        from rich.text import Text

        nodes, now = list(self._nodes), time.monotonic()
        width = max([len(node.node.name) for node in nodes], default=0)
        lines = [f"{HERE:{width}}  {self._packed}"] if self._packed else []
        for node in nodes:
            rate = self._meters.setdefault(node.node.name, Meter()).rate(now, node.sent)
            lines.append(f"{node.node.name:{width}}  {_line(node, rate)}")
        return Text("\n".join(line[: self.width] for line in lines), no_wrap=True)


def _line(node: Delivery, rate: float = 0) -> str:
    if node.doing != "sending":
        return node.doing
    packed = f"sending, {size(node.done)} of {size(node.total)}{'' if node.complete else ' so far'}"
    if rate < 1:
        return packed
    left = f", {clock((node.total - node.done) / rate)} left" if node.complete else ""
    return f"{packed}, {size(rate)}/s{left}"
