"""Sum up the Chrome trace of torch's profiler or of py-spy. It runs inside containers: Python 3.6 on.

    python reduce.py FOLDER

It reads FOLDER/trace.json and, from the launcher, FOLDER/operators.json, and prints one JSON document: at most 200
`rows`, the most expensive first. Times are seconds. A trace can be large, so it is parsed in its container.
"""

import json
import os
import sys
from typing import Any, Dict, List

MOST = 200
Row = Dict[str, Any]


def main() -> None:
    folder = sys.argv[1]
    with open(os.path.join(folder, "trace.json")) as file:
        trace = json.load(file)
    events = trace.get("traceEvents", []) if isinstance(trace, dict) else trace
    operators = os.path.join(folder, "operators.json")
    if os.path.exists(operators):
        with open(operators) as file:
            rows = kernels(events) + torch_operators(json.load(file))
        devices = [item.get("name", "") for item in trace.get("deviceProperties", [])]
    else:
        rows, devices = functions(events), []
    rows.sort(key=lambda row: -row["seconds"])
    # A CPU operator waits for its kernels, so each kind has its own rows.
    kept = [row for kind in ("gpu", "cpu") for row in [item for item in rows if item["kind"] == kind][: MOST // 2]]
    totals = {kind: sum(row["seconds"] for row in rows if row["kind"] == kind) for kind in ("gpu", "cpu")}
    json.dump({"rows": kept, "totals": totals, "device": devices[0] if devices else ""}, sys.stdout)


def kernels(events: List[Row]) -> List[Row]:
    """One row for each kernel and launch configuration."""
    rows: Dict[str, Row] = {}
    for event in events:
        if event.get("ph") != "X" or str(event.get("cat", "")).lower() != "kernel":
            continue
        args = event.get("args", {})
        key = json.dumps([event["name"], args.get("grid"), args.get("block")])
        row = rows.setdefault(key, {"kind": "gpu", "name": event["name"], "count": 0, "seconds": 0.0})
        row["count"] += 1
        row["seconds"] += event.get("dur", 0) / 1e6
        for ours, theirs in (
            ("grid", "grid"),
            ("block", "block"),
            ("registers", "registers per thread"),
            ("occupancy", "est. achieved occupancy %"),
        ):
            if args.get(theirs):
                row[ours] = args[theirs]  # of the last launch: these hardly differ
    return list(rows.values())


def torch_operators(operators: List[Row]) -> List[Row]:
    """One row for each operator of torch, and each kernel of versions whose trace has no kernels."""
    rows = []
    for op in operators:
        row = {"kind": "cpu", "name": op["name"], "count": op["count"], "seconds": op["cpu_self"] / 1e6}
        if op["flop"]:
            row["flop"] = op["flop"]
            # On a GPU the operator's kernels do the work.
            row["work_seconds"] = (op["gpu"] or op["cpu"]) / 1e6
            row["on_gpu"] = bool(op["gpu"])
        if row["seconds"] > 0:
            rows.append(row)
    return rows


def functions(events: List[Row]) -> List[Row]:
    """One row for each function of py-spy's samples, by the time in the function itself."""
    rows: Dict[str, Row] = {}
    stacks: Dict[Any, List[List[Any]]] = {}
    for event in events:
        if event.get("ph") not in ("B", "E"):
            continue
        stack = stacks.setdefault((event.get("pid"), event.get("tid")), [])
        now = event["ts"]
        if stack:
            stack[-1][0]["seconds"] += (now - stack[-1][1]) / 1e6
        if event["ph"] == "B":
            name = "%s (%s)" % (event["name"], event.get("args", {}).get("filename", "?"))
            row = rows.setdefault(name, {"kind": "cpu", "name": name, "seconds": 0.0})
            stack.append([row, now])
        elif stack:
            stack.pop()
            if stack:
                stack[-1][1] = now
    return [row for row in rows.values() if row["seconds"] > 0]


if __name__ == "__main__":
    main()
