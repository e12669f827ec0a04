"""One cell of the grid: every method's time, work and memory for one case."""

import functools
import statistics
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import accuracy, cases, machine, methods, records, timing

CALL_LIMIT_S = 20.0
ERROR_ELEMENTS = 1 << 24  # of scores: larger cases are not compared with float64 again

Record = Dict[str, Any]


class Settings(NamedTuple):
    device: str
    repeats: int
    budget_s: float
    flex_from: int  # the shortest sequence for which flex_attention is compiled


class Grid:
    """Measures cells of one pass. With shorter sequences first, it can skip methods that would take minutes a call."""

    def __init__(self, settings: Settings, roofs: "Optional[machine.Roofs]", which: str = "forward") -> None:
        self.settings = settings
        self.roofs = roofs
        self.is_backward = which == "backward"
        self.metric = records.TIMES[which]
        # By dtype, mask and method: how many scores a case had, and milliseconds a call.
        self.seen = {}  # type: Dict[Tuple[str, str, str], Tuple[int, float]]
        self.left_out = []  # type: List[str]

    def cell(self, case: cases.Case) -> List[Record]:
        """The records of one case. `left_out` then lists the methods that were skipped, and why."""
        settings = self.settings
        inputs = cases.inputs(case, settings.device)
        clock = timing.clock_of(settings.device)
        functions = self._functions(case, inputs)
        samples = timing.interleaved(functions, clock, settings.repeats, settings.budget_s)
        medians = {name: statistics.median(values) for name, values in samples.items()}
        params = dict(self.params_of(case), clock=clock)
        figures = [
            _figure("work", "GFLOP", self._flop(inputs.flop()) / 1e9, params),
            _figure("traffic", "MB", self._bytes(inputs.compulsory_bytes()) / 1e6, params),
        ]
        for name, values in samples.items():
            self.seen[case.dtype, case.mask, name] = (_scores(case), medians[name])
            with functions[name].context():
                peak = machine.peak_bytes(functions[name].function, settings.device)
            record = {
                "metric": self.metric,
                "impl": name,
                "unit": "ms",
                "median": medians[name],
                "samples": values,
                "peak_bytes": peak,
                "params": params,
                # How many times as fast as each of the others.
                "ratio_to": {other: medians[other] / medians[name] for other in medians if other != name},
            }
            record.update(self._rates(case.dtype, inputs, name, medians[name]))
            figures.append(record)
            if peak is not None:
                figures.append(_figure("memory", "MB", peak / 1e6, params, name))
        return figures + self._errors(case, inputs, functions, params)

    def params_of(self, case: cases.Case) -> Record:
        which = "backward" if self.is_backward else "forward"
        return {"direction": which, **params_of(case, self.settings.device)}

    def _flop(self, forward: int) -> float:
        """Five products of a backward pass to two of a forward pass."""
        return 2.5 * forward if self.is_backward else forward

    def _bytes(self, forward: int) -> int:
        """Backward: q, k, v, the result and its gradient are read, three gradients written; of the same sizes."""
        return 2 * forward if self.is_backward else forward

    def _functions(self, case: cases.Case, inputs: cases.Inputs) -> Dict[str, timing.Timed]:
        functions = {}
        self.left_out = []
        every = methods.methods(inputs, case.seq >= self.settings.flex_from)
        for method in methods.backwards(every) if self.is_backward else every:
            reason = self._too_much(case, method)
            if reason is None:
                reason = self._prepare(method, inputs, functions)
            if reason is not None:
                self.left_out.append("%s (%s)" % (method.name, reason))
        return functions

    def _prepare(
        self, method: methods.Method, inputs: cases.Inputs, functions: Dict[str, timing.Timed]
    ) -> Optional[str]:
        """Add a method's function after its first call. Returns why it cannot do this case; None if it can."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                function = method.make(inputs)
                with method.context():
                    function()
            except (cases.Unavailable, RuntimeError) as error:
                if method.is_ours:
                    raise
                return refusal(error, [str(each.message) for each in said])
        for each in said:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        functions[method.name] = timing.Timed(function, method.context)
        return None

    def _too_much(self, case: cases.Case, method: methods.Method) -> Optional[str]:
        """Why this method is skipped, for memory or time; None if it is not."""
        needed = method.matrices * _scores(case) * (4 if case.dtype == "float32" else 2)
        free = _free_bytes(self.settings.device)
        if needed > free / 2:
            return "its scores take %.1f GB, and %.1f GB are free" % (needed / 1e9, free / 1e9)
        before = self.seen.get((case.dtype, case.mask, method.name))
        rivals = [
            ms / scores
            for (dtype, mask, name), (scores, ms) in self.seen.items()
            if (dtype, mask) == (case.dtype, case.mask) and not name.startswith("ours")
        ]
        if method.is_ours or before is None:
            return None
        seconds = before[1] / before[0] * _scores(case) / 1e3
        if seconds > CALL_LIMIT_S and before[1] / before[0] > timing.SLOW_FACTOR * min(rivals):
            return "it would take %.0f s a call" % seconds
        return None

    def _rates(self, dtype: str, inputs: cases.Inputs, name: str, milliseconds: float) -> Record:
        """Useful work a second, and its share of the machine's peak and bandwidth."""
        packed = name == "ours-packed"
        flop, moved = inputs.without_padding() if packed else (inputs.flop(), inputs.compulsory_bytes())
        flop, moved = self._flop(flop), self._bytes(moved)
        gflops = flop / milliseconds / 1e6
        if self.roofs is None:
            return {"gflops": gflops}
        peak, bandwidth = self.roofs.peaks[dtype], max(self.roofs.bandwidths.values())
        gbytes = moved / milliseconds / 1e6
        slope = bandwidth * flop / moved
        return {
            "gflops": gflops,
            "peak_share": gflops / peak,
            "bandwidth_share": gbytes / bandwidth,
            "bound": "memory" if slope < peak else "compute",
        }

    def _errors(
        self, case: cases.Case, inputs: cases.Inputs, functions: Dict[str, timing.Timed], params: Record
    ) -> List[Record]:
        """Errors of results against float64, of ours and of torch's first method."""
        if self.is_backward or _scores(case) > ERROR_ELEMENTS:
            return []
        right = accuracy.expected(inputs)
        figures = []
        theirs = next((name for name in functions if name.startswith("sdpa")), None)
        for name in ("ours", theirs):
            if name is not None:
                with functions[name].context():
                    error = accuracy.error_of(functions[name].function(), right)
                figures.append(_figure("rms_error", "1", error.rms, params, name))
                figures.append(_figure("max_error", "1", error.largest, params, name))
        return figures


def refusal(error: Exception, warned: Sequence[str]) -> str:
    """Why a method cannot do a case. SDPA's error only says that there is no kernel; its warnings give the reason."""
    texts = [text.split(" (Triggered internally")[0] for text in warned]
    reasons = [text for text in texts if "not used because" not in text and "runtime disabled" not in text]
    return reasons[0] if reasons else str(error).splitlines()[0]


def params_of(case: cases.Case, device: str) -> Record:
    return dict(case.params(), device=device, threads=torch.get_num_threads())


def scaling(case: cases.Case, settings: Settings, counts: Tuple[int, ...] = (1, 2)) -> List[Record]:
    """Ours by the wall clock, for each number of threads, in turns. Restores torch's number of threads."""
    inputs = cases.inputs(case, settings.device)
    before = torch.get_num_threads()
    functions = {
        str(count): timing.Timed(functools.partial(methods.ours, inputs), functools.partial(_Threads, count))
        for count in counts
    }
    samples = timing.interleaved(functions, "wall", settings.repeats * 2, settings.budget_s)
    torch.set_num_threads(before)
    return [
        {
            "metric": "fused_attention.scaling",
            "impl": "ours",
            "unit": "ms",
            "median": statistics.median(values),
            "samples": values,
            "params": dict(params_of(case, settings.device), threads=int(count), clock="wall"),
        }
        for count, values in samples.items()
    ]


class _Threads:
    """Sets torch's number of threads inside a `with`."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        torch.set_num_threads(self.count)

    def __exit__(self, *_: Any) -> None:
        torch.set_num_threads(self.before)


def _scores(case: cases.Case) -> int:
    return case.batch * case.heads * case.seq * case.seq


def _free_bytes(device: str) -> float:
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info()[0] if hasattr(torch.cuda, "mem_get_info") else float("inf")
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def _figure(what: str, unit: str, value: float, params: Record, impl: Optional[str] = None) -> Record:
    figure = {
        "metric": "fused_attention." + what,
        "unit": unit,
        "median": value,
        "samples": [value],
        "params": params,
    }
    return dict(figure, impl=impl) if impl else figure
