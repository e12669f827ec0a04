"""Read the benchmark's records, JSON lines or the compact table, as cells of one case each."""

import json
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from . import summary

FORWARD = "fused_attention.forward"
# The parameters that identify a case; the others follow from them or from the machine.
KEY = ("device", "threads", "batch", "heads", "kv_heads", "seq", "dim", "dtype", "mask")

Record = Dict[str, Any]


class Cell:
    """One case: its parameters and, by method, the record of its time."""

    def __init__(self, params: Record) -> None:
        self.params = params
        self.records = {}  # type: Dict[str, Record]

    def median(self, impl: str) -> float:
        return self.records[impl]["median"]

    def others(self) -> List[str]:
        return [impl for impl in self.records if not impl.startswith("ours")]

    def best_other(self, prefix: str = "") -> Optional[str]:
        """The fastest method that is not ours and whose name begins with `prefix`."""
        names = [impl for impl in self.others() if impl.startswith(prefix)]
        return min(names, key=self.median) if names else None

    def speedup(self, impl: str = "ours", prefix: str = "") -> Optional[float]:
        """How many times as fast `impl` is as the fastest of the others."""
        best = self.best_other(prefix)
        return self.median(best) / self.median(impl) if best and impl in self.records else None

    def label(self) -> str:
        return "%(dtype)s %(mask)s, batch %(batch)d, seq %(seq)d" % self.params


class File:
    """The content of one file. A cell measured twice counts as it was measured last."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.environment = {}  # type: Record
        self.wrong = []  # type: List[Record]
        self.cells = {}  # type: Dict[Tuple[Any, ...], Cell]
        self.others = {}  # type: Dict[str, List[Record]]
        for record in records:
            self._add(record)

    def _add(self, data: Record) -> None:
        if "environment" in data:
            self.environment = data["environment"]
        for result in data.get("correctness", ()):
            if not result["ok"]:
                self.wrong.append(result)
        if data.get("metric") == FORWARD:
            key = key_of(data["params"])
            if data["impl"] == "ours":
                self.cells[key] = Cell(data["params"])
            self.cells[key].records[data["impl"]] = data
        elif "metric" in data:
            self.others.setdefault(data["metric"], []).append(data)

    def where(self, **required: Any) -> List[Cell]:
        """Cells whose parameters are, or are among, the required ones."""
        return [
            cell
            for cell in self.cells.values()
            if all(
                cell.params[name] in value if isinstance(value, (tuple, range)) else cell.params[name] == value
                for name, value in required.items()
            )
        ]


def key_of(params: Record) -> Tuple[Any, ...]:
    return tuple(params[name] for name in KEY)


def read(path: str) -> File:
    """Raises OSError, and ValueError for a file of something else."""
    with open(path) as lines:
        file = File(summary.read(lines) if path.endswith(".csv") else _json_lines(lines))
    if not file.environment:
        raise ValueError("it holds no records of this benchmark")
    return file


def _json_lines(lines: Iterable[str]) -> Iterator[Record]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:  # cut short when its writer was killed
            continue
