"""The benchmark's files as cells of one case each: JSON lines, and a compact table without samples (CSV)."""

import csv
import json
from typing import Any, Dict, Iterable, Iterator, List, Optional, TextIO, Tuple

# The parameters that identify a case; the others follow from them or from the machine.
KEY = ("direction", "device", "threads", "batch", "heads", "kv_heads", "seq", "dim", "dtype", "mask")
TIMES = {name: "fused_attention." + name for name in ("forward", "backward")}

_METHOD = "ms "  # before a method's name: a column of its medians
_PLAIN = {"fused_attention.work": "gflop", "fused_attention.traffic": "mbyte"}
_ERRORS = ("rms_error", "max_error")
_INTEGERS = ("threads", "batch", "heads", "kv_heads", "seq", "dim")

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
        suffix = ", backward" if self.params["direction"] == "backward" else ""
        return "%(dtype)s %(mask)s, batch %(batch)d, seq %(seq)d" % self.params + suffix


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
        if data.get("metric") in TIMES.values():
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
        file = File(_table_lines(lines) if path.endswith(".csv") else _json_lines(lines))
    if not file.environment:
        raise ValueError("it holds no records of this benchmark")
    return file


def _json_lines(lines: Iterable[str]) -> Iterator[Record]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:  # cut short when its writer was killed
            continue


def write_table(file: File, out: TextIO) -> None:
    """The environment as a comment, then the table. A case measured twice counts as it was measured last."""
    rows: Dict[Any, Record] = {key: dict(zip(KEY, key)) for key in file.cells}
    for metric, column in _PLAIN.items():
        for record in file.others.get(metric, ()):
            rows[key_of(record["params"])][column] = _short(record["median"])
    methods: List[str] = []
    for key, cell in file.cells.items():
        rows[key]["peak_share"] = _short(cell.records["ours"].get("peak_share"))
        for name, record in cell.records.items():
            rows[key][_METHOD + name] = _short(record["median"])
            methods += [name] if name not in methods else []
    for metric in _ERRORS:
        for record in file.others.get("fused_attention." + metric, ()):
            side = "ours" if record["impl"] == "ours" else "sdpa"
            rows[key_of(record["params"])]["%s %s" % (metric, side)] = _short(record["median"])
    errors = ["%s %s" % (metric, side) for metric in _ERRORS for side in ("ours", "sdpa")]
    columns = [*KEY, *_PLAIN.values(), "peak_share", *(_METHOD + name for name in methods), *errors]
    environment = {name: value for name, value in file.environment.items() if name != "platform"}
    out.write("# %s\n" % json.dumps({"environment": environment}))
    table = csv.DictWriter(out, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows.values())


def _table_lines(lines: Iterator[str]) -> Iterator[Record]:
    """The table's rows as records, each median as the only sample. Raises ValueError for another file."""
    head = next(lines, "")
    if not head.startswith("# "):
        raise ValueError("it is no table of this benchmark")
    yield json.loads(head[2:])
    for row in csv.DictReader(lines):
        params = {name: int(row[name]) if name in _INTEGERS else row[name] for name in KEY}
        for column, text in row.items():
            kind, _, impl = column.partition(" ")
            if not text or column in params or column == "peak_share":
                continue
            metric = next((name for name, plain in _PLAIN.items() if plain == column), "fused_attention." + kind)
            metric = TIMES[row["direction"]] if column.startswith(_METHOD) else metric
            record = {"metric": metric, "median": float(text), "samples": [float(text)], "params": params}
            if impl:
                record["impl"] = impl
            if column == _METHOD + "ours" and row["peak_share"]:
                record["peak_share"] = float(row["peak_share"])
            yield record


def _short(value: Any) -> str:
    return "" if value is None else "%.5g" % value
