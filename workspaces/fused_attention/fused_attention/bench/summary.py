"""The benchmark's compact table: a CSV row a case, with medians and errors instead of samples."""

import csv
import json
from typing import Any, Dict, Iterator, List, TextIO

from . import records

Record = Dict[str, Any]

_METHOD = "ms "  # before a method's name: a column of its medians
_PLAIN = {"fused_attention.work": "gflop", "fused_attention.traffic": "mbyte"}
_ERRORS = ("rms_error", "max_error")
_INTEGERS = ("threads", "batch", "heads", "kv_heads", "seq", "dim")


def write(file: "records.File", out: TextIO) -> None:
    """The environment as a comment, then the table. A case measured twice counts as it was measured last."""
    rows: Dict[Any, Record] = {key: dict(zip(records.KEY, key)) for key in file.cells}
    for metric, column in _PLAIN.items():
        for record in file.others.get(metric, ()):
            rows[records.key_of(record["params"])][column] = _short(record["median"])
    methods: List[str] = []
    for key, cell in file.cells.items():
        rows[key]["peak_share"] = _short(cell.records["ours"].get("peak_share"))
        for name, record in cell.records.items():
            rows[key][_METHOD + name] = _short(record["median"])
            methods += [name] if name not in methods else []
    for metric in _ERRORS:
        for record in file.others.get("fused_attention." + metric, ()):
            side = "ours" if record["impl"] == "ours" else "sdpa"
            rows[records.key_of(record["params"])]["%s %s" % (metric, side)] = _short(record["median"])
    errors = ["%s %s" % (metric, side) for metric in _ERRORS for side in ("ours", "sdpa")]
    columns = [*records.KEY, *_PLAIN.values(), "peak_share", *(_METHOD + name for name in methods), *errors]
    environment = {name: value for name, value in file.environment.items() if name != "platform"}
    out.write("# %s\n" % json.dumps({"environment": environment}))
    table = csv.DictWriter(out, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows.values())


def read(lines: Iterator[str]) -> Iterator[Record]:
    """The table's rows as records, each median as the only sample. Raises ValueError for another file."""
    head = next(lines, "")
    if not head.startswith("# "):
        raise ValueError("it is no table of this benchmark")
    yield json.loads(head[2:])
    for row in csv.DictReader(lines):
        params = {name: int(row[name]) if name in _INTEGERS else row[name] for name in records.KEY}
        for column, text in row.items():
            kind, _, impl = column.partition(" ")
            if not text or column in params or column == "peak_share":
                continue
            metric = next((name for name, plain in _PLAIN.items() if plain == column), "fused_attention." + kind)
            metric = records.FORWARD if column.startswith(_METHOD) else metric
            record = {"metric": metric, "median": float(text), "samples": [float(text)], "params": params}
            if impl:
                record["impl"] = impl
            if column == _METHOD + "ours" and row["peak_share"]:
                record["peak_share"] = float(row["peak_share"])
            yield record


def _short(value: Any) -> str:
    return "" if value is None else "%.5g" % value
