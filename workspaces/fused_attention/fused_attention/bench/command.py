"""Build the kernels, check them against float64, then time them: python -m fused_attention.bench --help

With --json and in the file of --output, one object a line: {"environment": ...}, {"correctness": [...]}, then one
record a figure. Exit code 1, and no times, if the build fails or a result is wrong.
"""

import argparse
import datetime
import itertools
import json
import os
import re
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch

from .. import build
from . import accuracy, cases, environment, layer, machine, measure, records, table, verdict

PARTS = ("grid", "backward", "scaling", "layer")
QUICK_MASKS = ("none", "causal", "window", "bigbird")
# A few different cases: large and small batches, long and short, dense and masked.
SCALING = ((1, 512, "none"), (16, 128, "none"), (1, 1024, "causal"), (8, 512, "window"), (4, 512, "padding"))
LAYER_BATCH, LAYER_SEQS = 16, (64, 128, 256, 512)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parse(arguments)
    if options.verdict:
        return judge(options.verdict)
    if options.summary:
        return summarize(options.summary)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        return fail("--device %s, and torch sees no CUDA device" % options.device)
    if options.device.startswith("cuda:"):
        torch.cuda.set_device(options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        build.load()
    except build.BuildError as error:
        return fail("the kernels do not build\n%s" % error)
    about = environment.describe(options.device)
    try:
        writer = Writer(options.json, options.output, about)
    except (OSError, ValueError) as error:
        return fail("--output %s: %s" % (options.output, error))
    writer.write([{"environment": about, "time": datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")}])
    with torch.no_grad():
        results = accuracy.check(options.dtype, options.device)
        writer.write([{"correctness": results}])
        wrong = [result for result in results if not result["ok"]]
        if wrong:
            return fail("%d of %d results are wrong; nothing was timed" % (len(wrong), len(results)))
        try:
            for found in measured(options, writer):
                writer.write(found)
        except layer.Wrong as error:
            return fail(str(error))
    if options.output and not options.json:
        print("\n" + judgement(records.read(options.output)))
    return 0


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fused_attention.bench", description="Check and time the kernels.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--quick", action="store_true", help="a few cases, in less than two minutes")
    parser.add_argument("--output", metavar="FILE", help="append the records to FILE; what is there is not done again")
    parser.add_argument(
        "--verdict", metavar="FILE", help="print whether FILE's cells meet the requirements for CPUs; exit 1 if not"
    )
    parser.add_argument("--summary", metavar="FILE", help="print FILE as a table without samples (CSV)")
    parser.add_argument("--part", nargs="+", choices=PARTS, help="only these; all without --quick, the grid with it")
    parser.add_argument("--dtype", nargs="+", choices=sorted(cases.DTYPES))
    parser.add_argument("--mask", nargs="+", choices=cases.MASKS)
    parser.add_argument("--batch", nargs="+", type=positive)
    parser.add_argument("--seq", nargs="+", type=positive)
    parser.add_argument("--heads", type=positive, default=12)
    parser.add_argument("--dim", type=head_dimension, default=64)
    parser.add_argument("--repeats", type=positive, help="samples of each method")
    parser.add_argument("--threads", type=positive, help="of torch; with 1, CPU time is measured and not the clock's")
    parser.add_argument("--device", type=device_name, default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    quick = options.quick
    options.part = options.part or (["grid"] if quick else list(PARTS))
    options.dtype = options.dtype or (["float32", "bfloat16"] if quick else list(cases.DTYPES))
    options.mask = options.mask or list(QUICK_MASKS if quick else cases.MASKS)
    options.layer_batch, options.layer_seq = options.batch or [LAYER_BATCH], options.seq or list(LAYER_SEQS)
    options.batch = options.batch or ([1] if quick else list(cases.BATCHES))
    options.seq = options.seq or ([128, 512] if quick else list(cases.SEQS))
    options.repeats = options.repeats or (5 if quick else 11)
    return options


def judge(path: str) -> int:
    """Print the verdict on a file of --output or --summary. Returns 0 if everything was measured and holds.

    A file of a GPU is not judged.
    """
    try:
        file = records.read(path)
    except (OSError, ValueError, KeyError) as error:
        return fail("--verdict %s cannot be judged: %s" % (path, error))
    print(verdict.measured_on(file) + "\n\n" + judgement(file))
    return 0 if not verdict.not_judged(file) and verdict.holds(file) else 1


def judgement(file: records.File) -> str:
    """The table of the requirements, or why there is none."""
    reason = verdict.not_judged(file)
    return "Not judged: %s." % reason if reason else verdict.markdown(verdict.rows(file))


def summarize(path: str) -> int:
    """Print the compact table of a file of --output."""
    try:
        records.write_table(records.read(path), sys.stdout)
    except (OSError, ValueError, KeyError) as error:
        return fail("--summary %s cannot be read: %s" % (path, error))
    return 0


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


def measured(options: argparse.Namespace, writer: "Writer") -> Iterator[List[Dict[str, Any]]]:
    """The records of all requested cases that the output lacks, case by case."""
    # flex_attention takes seconds to compile for each case: with --quick only for the long ones.
    settings = measure.Settings(options.device, options.repeats, 2.0, 512 if options.quick else 1)
    for part, name in (("grid", "forward"), ("backward", "backward")):
        if part in options.part:
            yield from grid(options, settings, writer, name)
    if "scaling" in options.part and options.device == "cpu" and (os.cpu_count() or 1) > 1:
        for dtype in options.dtype:
            for batch, seq, mask in SCALING:
                case = cases.Case(batch, options.heads, seq, options.dim, dtype, mask)
                if not writer.has("fused_attention.scaling", dict(measure.params_of(case, "cpu"), threads=2)):
                    yield measure.scaling(case, settings)
    if "layer" in options.part and hasattr(torch, "inference_mode"):
        # torch has no fast float16 matrix products on CPUs.
        dtypes = [dtype for dtype in options.dtype if dtype != "float16" or options.device != "cpu"]
        batches = itertools.product(("forward", "training"), dtypes, options.layer_batch, options.layer_seq)
        for direction, dtype, batch, seq in batches:
            params = {"direction": direction, "batch": batch, "seq": seq, "dtype": dtype}
            if not writer.has(layer.METRIC, dict(params, threads=torch.get_num_threads())):
                yield layer.cell(batch, seq, dtype, settings, say, direction)


def grid(
    options: argparse.Namespace, settings: measure.Settings, writer: "Writer", which: str
) -> Iterator[List[Dict[str, Any]]]:
    """The cells of one pass, "forward" or "backward"."""
    try:
        roofs = machine.roofs(options.device)  # type: Optional[machine.Roofs]
    except build.BuildError as error:
        roofs = None
        say("the machine's peak is not measured: %s" % str(error).splitlines()[0])
    if roofs is not None:
        yield roofs.records({"device": options.device, "threads": torch.get_num_threads()})
    cells = measure.Grid(settings, roofs, which)
    todo = cases.grid(options.batch, options.heads, options.seq, options.dim, options.dtype, options.mask)
    for case in todo:
        if writer.has(records.TIMES[which], cells.params_of(case)):
            continue
        yield cells.cell(case)
        for reason in cells.left_out:
            cell = (which, case.dtype, case.mask, case.batch, case.seq)
            say("%s, %s %s, batch %d, seq %d, left out: %s" % (*cell, reason))


class Writer:
    """Print records, and append them to a file that a later run resumes.

    Raises ValueError where the file's records are of another build, machine or number of threads.
    """

    def __init__(self, as_json: bool, path: Optional[str], about: Dict[str, Any]) -> None:
        self.as_json = as_json
        self.path = path
        self.done = {}  # type: Dict[str, List[Dict[str, Any]]]
        self.headed = False
        if path and os.path.exists(path) and os.path.getsize(path):
            file = records.read(path)
            with open(path, "rb+") as raw:
                raw.seek(-1, os.SEEK_END)
                if raw.read() != b"\n":  # the last line was cut off
                    raw.write(b"\n")
            unlike = [name for name in sorted(file.environment) if _unlike(name, file.environment, about)]
            if unlike:
                raise ValueError("its records differ from this run in %s; name another file" % ", ".join(unlike))
            self.done = {metric: [r["params"] for r in found] for metric, found in file.others.items()}
            for cell in file.cells.values():
                self.done.setdefault(records.TIMES[cell.params["direction"]], []).append(cell.params)

    def has(self, metric: str, params: Dict[str, Any]) -> bool:
        """Whether the file holds a record with these parameters, among others."""
        return any(all(d.get(n) == value for n, value in params.items()) for d in self.done.get(metric, ()))

    def write(self, found: Sequence[Dict[str, Any]]) -> None:
        lines = "".join(json.dumps(_short(record)) + "\n" for record in found)
        if self.path:
            # One write, so that a killed run leaves complete cases.
            with open(self.path, "a") as file:
                file.write(lines)
        if self.as_json:
            print(lines, end="", flush=True)
        else:
            for record in found:
                self._show(record)

    def _show(self, record: Dict[str, Any]) -> None:
        if "environment" in record:
            lines = table.environment(record["environment"])
        elif "correctness" in record:
            lines = table.correctness(record["correctness"])
        elif record["metric"].startswith("machine."):
            lines = [table.roof(record)]
        else:
            line = table.line(record)
            lines = [] if line is None else [line] if self.headed else ["", table.HEADING, line]
            self.headed = self.headed or line is not None
        for text in lines:
            print(text, flush=True)


def _unlike(name: str, before: Dict[str, Any], now: Dict[str, Any]) -> bool:
    if name == "device":  # its clocks vary
        return before[name].get("name") != now[name].get("name")
    return bool(before[name] != now.get(name))


def _short(value: Any) -> Any:
    """Floats rounded to seven digits, more than a clock resolves."""
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float("%.7g" % value) if isinstance(value, float) else value


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fail(what: str) -> int:
    say("error: " + what)
    return 1
