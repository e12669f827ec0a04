"""The command line: python -m operator_fusion --help

Exit codes are those of reprokit: 1 the work failed, 2 wrong usage or bad input.
"""

import argparse
import sys
from typing import Callable, Optional, Sequence

from . import plans, predictor
from .shapes import DTYPES, MASKS, Shape

STRATEGIES = ("exact", "xgboost", "random", "anneal", "reward")

# Verbs that run torch import their module when they are called: translating needs no torch.


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        return _fail(str(error), 2)
    except ModuleNotFoundError as error:
        return _fail(f"{error}; install it, or put its folder on PYTHONPATH", 1)
    except RuntimeError as error:
        return _fail(str(error), 1)
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m operator_fusion", description="Fusion plans of a BERT encoder layer.")
    verbs = top.add_subparsers(metavar="VERB", required=True)

    def verb(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        command = verbs.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    command = verb("translate", _translate, "Print VALUE BIT0 SEGMENTS START END ... of each value.")
    command.add_argument("values", metavar="VALUE", type=int, nargs="+")
    command = verb("encode", _encode, "Print the canonical value of BIT0 SEGMENTS START END ...")
    command.add_argument("words", metavar="NUMBER", nargs="+")
    command = verb("generate", _generate, "Print the Python module of a plan.")
    command.add_argument("value", metavar="VALUE", type=int)
    _add_shape(command)
    command = verb("tune", _tune, "Search for the fastest plan of a shape.")
    _add_shape(command)
    _add_measuring(command)
    command.add_argument("--strategy", nargs="+", default=["exact"], choices=STRATEGIES, help="several are compared")
    command.add_argument(
        "--budget", type=_positive, default=128, help="measurements of a search; exact needs 131 at most"
    )
    command.add_argument("--seeds", type=_positive, default=1, help="searches of each strategy, but one of exact")
    command.add_argument("--plot", metavar="FILE", help="write best-so-far by number of measurements as PNG")
    command = verb("measure", _measure, "Measure what is named, and print the records.")
    _add_shape(command)
    _add_measuring(command)
    command.add_argument(
        "jobs", metavar="JOB", nargs="+", help="such as 'plan 41115', 'part 3 7 1' or 'versus 0 41115'"
    )
    command = verb("baselines", _baselines, "Compare a plan with eager, compiled and other layers, in turns.")
    _add_shape(command)
    _add_measuring(command)
    command.add_argument("--plan", metavar="VALUE", type=int, help="the best of --results unless given")
    command = verb("train", _train, "Train the predictor on a file of lines BITS VALUE.")
    command.add_argument("file", metavar="FILE")
    command.add_argument("--model", metavar="FILE", required=True, help="where to save it")
    command.add_argument("--seed", type=int, default=0, help="of the held-out fifth")
    command = verb("predict", _predict, "Print the predicted value of a plan, and 1 (high performance) or 0.")
    command.add_argument("bits", metavar="BITS", nargs="+", help="16 characters 0 or 1")
    command.add_argument("--model", metavar="FILE", required=True)
    return top


def _add_shape(command: argparse.ArgumentParser) -> None:
    command.add_argument("--batch", type=_positive, default=8)
    command.add_argument("--seq", type=_positive, default=256)
    command.add_argument("--mask", choices=MASKS, default="strided")
    command.add_argument("--heads", type=_positive, default=12)
    command.add_argument("--head-size", type=_positive, default=64)
    command.add_argument("--layers", type=_positive, default=1)
    command.add_argument(
        "--window", type=_positive, help="keys on each side, of masks with a window; seq / 16 unless given"
    )
    command.add_argument("--dtype", choices=DTYPES, default="float32")
    command.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")


def _add_measuring(command: argparse.ArgumentParser) -> None:
    command.add_argument("--threads", type=_positive, help="of torch; with 1, CPU time is measured and not the clock's")
    command.add_argument("--rounds", type=_positive, default=7, help="samples of each plan")
    command.add_argument("--results", metavar="FILE", help="append measurements to FILE; those in it are not repeated")
    command.add_argument(
        "--weights", metavar="FILE", help="state dict of a Hugging Face BERT; else seeded random weights"
    )
    command.add_argument("--json", action="store_true", help="print records, one JSON object a line")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def shape_of(options: argparse.Namespace) -> Shape:
    """Raises ValueError."""
    return Shape(**{name: getattr(options, name) for name in Shape._fields}).checked()


def _translate(options: argparse.Namespace) -> None:
    translated = [plans.from_value(value) for value in options.values]
    for value, plan in zip(options.values, translated):
        print(value, plan)


def _encode(options: argparse.Namespace) -> None:
    print(plans.from_text(" ".join(options.words)).value)


def _generate(options: argparse.Namespace) -> None:
    from . import generate

    print(generate.module(plans.from_value(options.value), shape_of(options)), end="")


def _tune(options: argparse.Namespace) -> None:
    from . import tune

    tune.tune(options, shape_of(options))


def _measure(options: argparse.Namespace) -> None:
    from . import tune

    tune.measure(options, shape_of(options))


def _baselines(options: argparse.Namespace) -> None:
    from . import tune

    tune.baselines(options, shape_of(options))


def _train(options: argparse.Namespace) -> None:
    model, report = predictor.train(predictor.read(options.file), options.seed)
    model.save(options.model)
    print(f"trained on {report.trained} lines; with {report.held_out} of them held out:")
    print(f"rank correlation {report.rank_correlation:.3f}, median error {100 * report.median_error:.1f} %")


def _predict(options: argparse.Namespace) -> None:
    wanted = [plans.from_bits(bits) for bits in options.bits]
    model = predictor.Predictor.load(options.model)
    for value in model.predict(wanted):
        print(f"{value:.6g} {int(model.is_fast(value))}")


def _fail(what: str, code: int) -> int:
    for line in what.splitlines():
        print(f"error: {line}", file=sys.stderr)
    return code
