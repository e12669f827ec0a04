"""What must hold, against what was measured: a row a requirement, with its worst cell."""

import math
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from .records import Cell, File, key_of

LONG = range(512, 1 << 30)
LOCAL = ("window", "longformer", "bigbird")
STEPPED = ("strided", "fixed", "dilated")

# A value and the cell that it is of.
Value = Tuple[float, str]


class Need(NamedTuple):
    """One row: every value must be at least (or at most) `bound`."""

    case: str
    bound: float
    values: Callable[[File], Iterable[Value]]
    at_least: bool = True


class Row(NamedTuple):
    need: Need
    worst: Optional[Value]  # None: not measured
    count: int

    @property
    def holds(self) -> bool:
        if self.worst is None:
            return False
        # Written so that a NaN does not hold.
        return self.worst[0] >= self.need.bound if self.need.at_least else self.worst[0] <= self.need.bound


def rows(file: File) -> List[Row]:
    found = []
    for need in NEEDS:
        values = list(need.values(file))
        worst = min(values, key=lambda value: _order(value[0], need.at_least)) if values else None
        found.append(Row(need, worst, len(values)))
    return found


def holds(file: File) -> bool:
    """Whether everything was measured and holds."""
    return not file.wrong and all(row.holds for row in rows(file))


def measured_on(file: File) -> str:
    """One sentence: the processor, its instruction set as the kernel uses it, and torch."""
    about = file.environment
    device = about.get("device", {})
    place = (about.get("processor"), device.get("name"), device.get("capability"), about.get("torch"))
    return "Measured on %s (%s, %s) with torch %s." % place


def markdown(found: Sequence[Row]) -> str:
    table = [["case", "must be", "worst", "in", "values", "holds"]]
    for row in found:
        need = row.need
        bound = "%s %.2f" % (">=" if need.at_least else "<=", need.bound)
        value, label = row.worst or (math.nan, "")
        measured = ["%.2f" % value, label, str(row.count), "yes" if row.holds else "**no**"]
        table.append([need.case, bound, *(measured if row.worst else ["", "", "0", "not measured"])])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    lines = ["| %s |" % " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in table]
    lines.insert(1, "|%s|" % "|".join("-" * (width + 2) for width in widths))
    return "\n".join(lines)


def speedups(impl: str = "ours", prefix: str = "", **wanted: Any) -> Callable[[File], List[Value]]:
    """Over the fastest of the others (whose names begin with `prefix`) in the cells that are `wanted`."""

    def values(file: File) -> List[Value]:
        found = []
        for cell in file.where(**wanted):
            ratio = cell.speedup(impl, prefix)
            if ratio is not None:
                rival = "%s, against %s" % (cell.label(), cell.best_other(prefix))
                found.append((ratio, rival + _most(cell, impl, ratio)))
        return found

    return values


def _most(cell: Cell, impl: str, ratio: float) -> str:
    """What the ratio would be at the raw peak: where that is too little, no kernel can do what must be."""
    share = cell.records[impl].get("peak_share")
    return " (at the raw peak: %.2f)" % (ratio / share) if share else ""


def peak_shares(file: File) -> Iterable[Value]:
    for cell in file.where(mask="none", seq=range(1024, 1 << 30), dtype=("float32", "bfloat16")):
        if "peak_share" in cell.records["ours"]:
            yield cell.records["ours"]["peak_share"], cell.label()


def over_share(masks: Tuple[str, ...]) -> Callable[[File], Iterable[Value]]:
    """Masked time over (share of unmasked elements times dense time), at 1024."""

    def values(file: File) -> Iterable[Value]:
        work = {key_of(r["params"]): r["median"] for r in file.others.get("fused_attention.work", ())}
        for cell in file.where(mask=masks, seq=1024):
            key, dense_key = key_of(cell.params), key_of(dict(cell.params, mask="none"))
            if dense_key in file.cells:
                share = work[key] / work[dense_key]
                yield cell.median("ours") / (share * file.cells[dense_key].median("ours")), cell.label()

    return values


def two_threads(file: File) -> Iterable[Value]:
    """By the fastest samples: what else runs on the machine can only slow one down."""
    times: Dict[str, Dict[int, float]] = {}
    for record in file.others.get("fused_attention.scaling", ()):
        params = record["params"]
        known = times.setdefault(Cell(params).label(), {})
        known[params["threads"]] = min([*record["samples"], known.get(params["threads"], math.inf)])
    for label, by_threads in times.items():
        if {1, 2} <= set(by_threads):
            yield by_threads[1] / by_threads[2], label


def error_ratios(metric: str) -> Callable[[File], Iterable[Value]]:
    """Ours over SDPA's by dtype and mask, each over all cases: a single case's is chance."""

    def values(file: File) -> Iterable[Value]:
        errors: Dict[Tuple[str, str], Dict[bool, List[float]]] = {}
        for record in file.others.get("fused_attention." + metric, ()):
            case = errors.setdefault((record["params"]["dtype"], record["params"]["mask"]), {})
            case.setdefault(record["impl"] == "ours", []).append(record["median"])
        for (dtype, mask), sides in errors.items():
            if len(sides) == 2:
                yield _size(metric, sides[True]) / _size(metric, sides[False]), "%s %s" % (dtype, mask)

    return values


def _size(metric: str, errors: List[float]) -> float:
    return max(errors) if metric == "max_error" else math.sqrt(sum(x * x for x in errors) / len(errors))


def _order(value: float, at_least: bool) -> float:
    """Worst first, and a NaN before all."""
    return -math.inf if math.isnan(value) else value if at_least else -value


# Issue 4's table. Times are against the fastest of SDPA, naive and flex for the same mask and dtype.
NEEDS = (
    Need("dense fp32, seq >= 256", 2.0, speedups(mask="none", dtype="float32", seq=range(256, 1 << 30))),
    Need("dense fp32, seq 64 and 128", 1.9, speedups(mask="none", dtype="float32", seq=(64, 128))),
    Need("dense bf16, seq >= 256", 2.0, speedups(mask="none", dtype="bfloat16", seq=range(256, 1 << 30))),
    Need("dense bf16, seq 64 and 128", 1.9, speedups(mask="none", dtype="bfloat16", seq=(64, 128))),
    Need("fp16, every seq and mask (against SDPA)", 4.0, speedups(prefix="sdpa", dtype="float16")),
    Need("causal, seq >= 512", 2.3, speedups(mask="causal", seq=LONG)),
    Need("window, Longformer, BigBird, seq >= 512", 2.5, speedups(mask=LOCAL, seq=LONG)),
    Need("strided, fixed, dilated, seq >= 512", 3.0, speedups(mask=STEPPED, seq=LONG)),
    Need("padded batch, 60 % full, as a mask", 2.5, speedups(mask="padding")),
    Need("padded batch, 60 % full, packed", 2.5, speedups("ours-packed", mask="padding")),
    Need("seq 16 and 32, batch 1", 3.0, speedups(seq=(16, 32), batch=1)),
    Need("no cell of the grid below", 1.0, speedups()),
    Need("share of the raw peak, dense, seq >= 1024", 0.75, peak_shares),
    Need("time / (share x dense), seq 1024: window, Longformer, BigBird, causal", 1.3, over_share((*LOCAL, "causal")),
         at_least=False),
    Need("time / (share x dense), seq 1024: strided, dilated", 1.6, over_share(("strided", "dilated")),
         at_least=False),
    Need("two threads, times as fast as one", 1.85, two_threads),
    Need("root mean square error / SDPA's", 1.0, error_ratios("rms_error"), at_least=False),
    Need("largest error / SDPA's", 1.0, error_ratios("max_error"), at_least=False),
)  # fmt: skip
