"""The verbs that measure: a search by one or several strategies, measurements by name, a plan beside baselines."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from . import compare, plans
from .jobs import Confirmed, Versus
from .search.exact import Exact
from .search.loop import STRATEGIES, Progress, Result, search
from .shapes import Shape
from .store import Store, job_named

if TYPE_CHECKING:
    from .measure import Bench
    from .timing import Ratio


def tune(options: argparse.Namespace, shape: Shape) -> None:
    """Prints the best plan and the table of strategies. Raises ValueError, OSError, and RuntimeError of torch.

    With --json prints a line of progress after each batch, then every measurement as a record, then a summary.
    """
    bench, store = _opened(options, shape)
    results = _searched(bench, store, options)
    confirmed = _confirmed(bench, store, results)
    winners = {
        name: min((result.best for result in searches), key=confirmed.__getitem__) for name, searches in results.items()
    }
    ratios = _ratios(bench, store, winners)
    bench.close()
    best = min(confirmed, key=lambda plan: confirmed[plan])
    rows = compare.rows(results, confirmed)
    title = f"batch {shape.batch}, seq {shape.seq}, {shape.mask}, {shape.dtype}"
    plotted = options.plot and compare.plot(results, confirmed, options.plot, title, _report)
    if options.json:
        _print({"environment": _machine(shape)})
        for job, measurement in store.items():
            print(store.record(job, measurement))
        versus = [{"strategy": name, "plan": winners[name].value, **r._asdict()} for name, r in ratios.items()]
        about = {"plan": best.value, "segments": str(best), "time": confirmed[best], "against": options.strategy[0]}
        about["plotted"] = bool(plotted)
        _print({"summary": {**about, "rows": [row._asdict() for row in rows], "versus": versus}})
        return
    print(f"best plan: {best.value} {best}")
    print(f"time / compiled layer: {confirmed[best]:.3f}\n")
    print(compare.markdown(rows))
    for name, ratio in ratios.items():
        print(f"best plan of {name}: {winners[name].value}, time / that of {options.strategy[0]}: {ratio}")


def measure(options: argparse.Namespace, shape: Shape) -> None:
    """Measure the jobs named in `options.jobs`, and print one record for each."""
    jobs = [job_named(name) for name in options.jobs]
    bench, store = _opened(options, shape)
    for job, measurement in zip(jobs, bench.measure(jobs)):
        store.put(job, measurement)
    bench.close()
    _print({"environment": _machine(shape)})
    for job, measurement in store.items():
        print(store.record(job, measurement))


def baselines(options: argparse.Namespace, shape: Shape) -> None:
    """Prints the plan's cell of the speed-up grid; with --json its samples as records, then a summary."""
    from . import grid

    bench, store = _opened(options, shape)
    plan = store.best() if options.plan is None else plans.from_value(options.plan)
    peak, how = _peak(shape)
    cell = grid.cell(bench, plan, _report, options.rounds)
    bench.close()
    if options.json:
        print(json.dumps({"environment": _machine(shape)}))
        for record in cell.records(store.params):
            print(json.dumps(record))
        about = {"plan": plan.value, "rival": cell.rival, **cell.speedup._asdict(), "bound": cell.bound}
        _print({"summary": {**about, "gemm_gflops": cell.gemm_gflops, "peak_gflops": peak, "peak_of": how}})
        return
    print(f"plan {plan.value}: {plan}")
    for name, milliseconds in cell.milliseconds.items():
        print(f"  {name:24} {milliseconds:9.2f} ms")
    print(f"speed-up over {cell.rival}: {cell.speedup} (95 % interval); with GEMMs alone it would be {cell.bound:.2f}")
    share = f", {100 * cell.gemm_gflops / peak:.0f} % of the raw peak ({how})" if peak else ""
    print(f"GEMMs: {cell.gemm_gflops:.0f} GFLOP/s{share}")


def _opened(options: argparse.Namespace, shape: Shape) -> "Tuple[Bench, Store]":
    import torch

    from .machine import missing_for
    from .measure import Bench
    from .weights import random_weights, read_bert

    if options.threads:
        torch.set_num_threads(options.threads)
    if shape.device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"--device {shape.device}, and torch sees no CUDA device")
    reason = missing_for(shape.dtype, shape.device)
    if reason:
        raise ValueError(f"--dtype {shape.dtype}: {reason}")
    weights = "bert" if options.weights else "random"
    store = Store(options.results, {**shape.params(), **_machine(shape), "weights": weights})
    layers = read_bert(options.weights, shape) if options.weights else random_weights(shape)
    return Bench(shape, layers, options.rounds), store


def _machine(shape: Shape) -> Dict[str, Any]:
    from .machine import describe

    return describe(shape.device)


def _searched(bench: "Bench", store: Store, options: argparse.Namespace) -> Dict[str, List[Result]]:
    results: Dict[str, List[Result]] = {name: [] for name in options.strategy}
    # A comparison that is stopped has about as many seeds of each strategy.
    for seed in range(options.seeds):
        for name, searches in results.items():
            if not seed or STRATEGIES[name] is not Exact:
                show = _json_progress(name, seed) if options.json else _live(f"{name}, seed {seed}")
                strategy = STRATEGIES[name](seed)
                searches.append(search(strategy, bench.measure, store, options.budget, show, bench.batch))
    return results


def _confirmed(bench: "Bench", store: Store, results: Dict[str, List[Result]]) -> Dict[plans.Plan, float]:
    """The time of every plan that some search thought best for a while, measured once more."""
    chosen = [
        plan for searches in results.values() for result in searches for plan in result.chosen if plan is not None
    ]
    wanted = list(dict.fromkeys(chosen))
    missing = [Confirmed(plan) for plan in wanted if store.get(Confirmed(plan)) is None]
    for start in range(0, len(missing), bench.batch):
        batch = missing[start : start + bench.batch]
        for job, measurement in zip(batch, bench.measure(batch)):
            store.put(job, measurement)
    return {plan: store.value(Confirmed(plan)) for plan in wanted}


def _ratios(bench: "Bench", store: Store, winners: Dict[str, plans.Plan]) -> "Dict[str, Ratio]":
    """The time of each strategy's best plan over that of the first strategy, where it is another plan.

    Plans whose times differ by less than the noise are measured again, in turns.
    """
    first = next(iter(winners.values()))
    others = {name: Versus(plan, first) for name, plan in winners.items() if plan != first}
    missing = [job for job in dict.fromkeys(others.values()) if store.get(job) is None]
    if missing:
        for job, measurement in zip(missing, bench.measure(missing)):
            store.put(job, measurement)
    if not others:
        return {}
    from .timing import interval

    return {name: interval(store.pairs(job)) for name, job in others.items()}


def _peak(shape: Shape) -> Tuple[float, str]:
    """GFLOP/s of a loop of nothing but multiply-adds, by the benchmark of fused_attention, and by which instructions.

    0 where that is missing.
    """
    try:
        from fused_attention.bench import machine as attention_machine

        roofs = attention_machine.roofs(shape.device)
        return float(roofs.peaks[shape.dtype]), roofs.how[shape.dtype]
    except (ImportError, RuntimeError) as error:
        _report(f"the raw peak is not measured: {str(error).splitlines()[0]}")
        return 0.0, ""


def _live(title: str) -> Callable[[Progress], None]:
    """Best so far: one line that is written over in a terminal, else a line whenever it improves."""
    terminal = sys.stderr.isatty()
    last: List[Any] = []

    def show(progress: Progress) -> None:
        plan = f"plan {progress.best.value} at {progress.value:.3f}" if progress.best else "measuring parts"
        line = f"{title}: {progress.used}/{progress.budget}, {plan}, {progress.seconds:.0f} s"
        if terminal:
            end = "\n" if progress.used == progress.budget else ""
            print(f"\r{line:79}", end=end, file=sys.stderr, flush=True)
        elif last[-1:] != [progress.best]:
            last.append(progress.best)
            _report(line)

    return show


def _json_progress(name: str, seed: int) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        best = None if progress.best is None else {"plan": progress.best.value, "time": progress.value}
        about = {"strategy": name, "seed": seed, "used": progress.used, "budget": progress.budget, "best": best}
        _print({"progress": about})

    return show


def _print(data: Dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
