"""Builds the kernels, checks them against float64, then times them: python -m fused_attention.bench --json

With --json, one object a line: {"environment": ...}, {"correctness": [...]}, then one record a case and
method. Exit code 1, and no times, if the build fails or a result is wrong.
"""

import argparse
import json
import re
import statistics
import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import torch

from . import build, cases, environment, methods, reference, timing

METRIC = "fused_attention.forward"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parse(arguments)
    show = show_json if options.json else show_text
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("error: --device %s, and torch sees no CUDA device" % options.device, file=sys.stderr)
        return 1
    if options.device.startswith("cuda:"):
        torch.cuda.set_device(options.device)
    try:
        build.load()
    except build.BuildError as error:
        print("error: the kernels do not build\n%s" % error, file=sys.stderr)
        return 1
    show({"environment": environment.describe(options.device)})
    checks = check(options.dtype, options.device)
    show({"correctness": checks})
    wrong = [result for result in checks if not result["ok"]]
    if wrong:
        print(
            "error: %d of %d results are wrong; nothing was timed" % (len(wrong), len(checks)),
            file=sys.stderr,
        )
        return 1
    for record in measure(options):
        show(record)
    return 0


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fused_attention.bench", description="Check and time the kernels.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--quick", action="store_true", help="fewer cases and samples")
    parser.add_argument("--dtype", nargs="+", choices=sorted(cases.DTYPES))
    parser.add_argument("--mask", nargs="+", choices=cases.MASKS)
    parser.add_argument("--batch", nargs="+", type=positive)
    parser.add_argument("--seq", nargs="+", type=positive)
    parser.add_argument("--heads", type=positive, default=12)
    parser.add_argument("--dim", type=head_dimension, default=64)
    parser.add_argument("--repeats", type=positive, help="samples of each method")
    parser.add_argument("--device", type=device_name, default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    quick = options.quick
    options.dtype = options.dtype or (["float32", "bfloat16"] if quick else ["float32", "bfloat16", "float16"])
    options.mask = options.mask or (["none", "causal"] if quick else ["none", "causal", "window"])
    options.batch = options.batch or [1]
    options.seq = options.seq or ([128, 512] if quick else [64, 256, 512])
    options.repeats = options.repeats or (7 if quick else 11)
    return options


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("%s is not positive" % text)
    return value


def head_dimension(text: str) -> int:
    if positive(text) > 256:
        raise argparse.ArgumentTypeError("%s is above 256" % text)
    return int(text)


def device_name(text: str) -> str:
    if not re.match(r"(cpu|cuda(:\d+)?)$", text):
        raise argparse.ArgumentTypeError("%r is not cpu, cuda or cuda:N" % text)
    return text


def check(dtypes: Sequence[str], device: str) -> List[Dict[str, Any]]:
    """The largest error of each awkward case against the float64 reference."""
    results = []
    for case in cases.correctness_cases(dtypes):
        inputs = cases.inputs(case, device)
        error = float((methods.ours(inputs) - reference.attention(*inputs)).abs().max())
        tolerance = cases.TOLERANCES[case.dtype]
        # Written so that a NaN is wrong.
        results.append(
            {"params": case.params(), "max_abs_err": error, "tolerance": tolerance, "ok": error <= tolerance}
        )
    return results


def measure(options: argparse.Namespace) -> Iterator[Dict[str, Any]]:
    """Records of every case: the samples of each method and its speed relative to the others."""
    grid = cases.grid(options.batch, options.heads, options.seq, options.dim, options.dtype, options.mask)
    for case in grid:
        params = dict(case.params(), device=options.device, threads=torch.get_num_threads())
        functions = runnable(methods.methods(cases.inputs(case, options.device)))
        samples = timing.interleaved(functions, options.device, options.repeats, budget_s=2.0)
        medians = {name: statistics.median(values) for name, values in samples.items()}
        for name, values in samples.items():
            yield {
                "metric": METRIC,
                "impl": name,
                "unit": "ms",
                "median": medians[name],
                "samples": values,
                "peak_bytes": timing.peak_bytes(functions[name], options.device),
                "params": params,
                # How many times as fast as each of the others.
                "ratio_to": {other: medians[other] / medians[name] for other in medians if other != name},
            }


def runnable(functions: Mapping[str, timing.Function]) -> Dict[str, timing.Function]:
    """Those that this torch can run: older ones multiply no float16 on the CPU. Says what it leaves out."""
    kept = {}
    for name, function in functions.items():
        try:
            function()
        except RuntimeError as error:
            if name == "ours":
                raise
            print("left out: %s (%s)" % (name, str(error).splitlines()[0]), file=sys.stderr)
        else:
            kept[name] = function
    return kept


def show_json(record: Dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


def show_text(record: Dict[str, Any]) -> None:
    if "environment" in record:
        for name, value in record["environment"].items():
            print("%-10s %s" % (name, value))
    elif "correctness" in record:
        worst = {}  # type: Dict[str, float]
        for result in record["correctness"]:
            dtype = result["params"]["dtype"]
            worst[dtype] = max(worst.get(dtype, 0.0), result["max_abs_err"])
            if not result["ok"]:
                print("wrong: error %(max_abs_err)g, allowed %(tolerance)g, for %(params)s" % result)
        print("largest error: " + ", ".join("%s %.2g" % pair for pair in worst.items()) + "\n")
        print(" dtype     mask     batch   seq  method      ms  ours is x times as fast")
    else:
        params, ratio = record["params"], record["ratio_to"].get("ours")
        print(
            "%(dtype)9s  %(mask)-8s %(batch)5d %(seq)5d  " % params
            + "%-6s %8.3f  %s" % (record["impl"], record["median"], "%.2f" % (1 / ratio) if ratio else "")
        )


if __name__ == "__main__":
    sys.exit(main())
