"""Records as lines of text."""

from typing import Any, Dict, List, Optional

from .records import TIMES

Record = Dict[str, Any]

HEADING = (
    "    dtype  mask       batch   seq  direction  method               ms   spread  ours is   GFLOP/s  of peak"
    "  of bandwidth  bound        MB"
)


def environment(values: Record) -> List[str]:
    return ["%-10s %s" % pair for pair in values.items()]


def correctness(results: List[Record]) -> List[str]:
    lines = [
        "wrong: error %(max_abs_err)g, allowed %(tolerance)g, for %(params)s" % result
        for result in results
        if not result["ok"]
    ]
    worst = {}  # type: Dict[str, float]
    for result in results:
        dtype = result["params"]["dtype"]
        worst[dtype] = max(worst.get(dtype, 0.0), result["max_abs_err"])
    return [*lines, "largest error: " + ", ".join("%s %.2g" % pair for pair in worst.items())]


def roof(record: Record) -> str:
    params = record["params"]
    return "%-10s %.1f %s (%s)" % (
        record["metric"].split(".")[1],
        record["median"],
        record["unit"],
        ", ".join(str(params[name]) for name in ("dtype", "how", "kind") if name in params),
    )


def line(record: Record) -> Optional[str]:
    """One line for a time; None for a record that has no line of its own."""
    params, metric = record["params"], record["metric"]
    if metric not in (*TIMES.values(), "fused_attention.scaling", "fused_attention.bert_layer"):
        return None
    median = record["median"]
    ours = record.get("ratio_to", {}).get("ours")
    mask = params.get("mask", "layer")
    head = "%9s  %-10s %5d %5d  %-9s  " % (
        params["dtype"],
        mask,
        params["batch"],
        params["seq"],
        params.get("direction", "forward"),
    )
    name = record["impl"] + (" x%d" % params["threads"] if metric == "fused_attention.scaling" else "")
    spread = (max(record["samples"]) - min(record["samples"])) / 2 / median
    text = head + "%-15s %8.3f  +-%3.0f%%  %7s" % (name, median, 100 * spread, "%.2fx" % (1 / ours) if ours else "")
    if "gflops" in record:
        text += "  %8.1f" % record["gflops"]
    if "peak_share" in record:
        shares = (100 * record["peak_share"], 100 * record["bandwidth_share"], record["bound"])
        text += "  %6.0f%%  %11.0f%%  %-7s" % shares
    if record.get("peak_bytes") is not None:
        text += "  %7.2f" % (record["peak_bytes"] / 1e6)
    return text.rstrip()
