"""The time of a plan predicted by gradient boosting (XGBoost), trained on lines `BITS   VALUE`."""

import hashlib
import json
import math
import os
import random
import statistics
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from . import plans
from .plans import OPERATORS, Plan

HELD_OUT = 0.2
FAST = 0.25  # the share of training plans that count as high performance
ROUNDS = 100
SETTINGS = {"max_depth": 4, "eta": 0.15, "subsample": 0.8, "colsample_bytree": 0.8, "nthread": 1, "verbosity": 0}
FORMAT = "operator_fusion predictor 1"

Line = Tuple[Plan, float]


class Missing(RuntimeError):
    """The package xgboost is not installed."""


class BadLines(ValueError):
    """Lines of a training file that are none; the message names each by file and line."""


class Report(NamedTuple):
    """On the held-out lines: Spearman's rank correlation, and the median of |predicted - value| / value."""

    trained: int
    held_out: int
    rank_correlation: float
    median_error: float


def xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise Missing("the predictor needs XGBoost: python -m pip install xgboost-cpu") from None
    return xgboost


def features(plan: Plan) -> List[float]:
    """For each of 14 places, whether a part begins there; and whether the hand-written attention runs.

    Complementing bits 1 to 15 changes none of them.
    """
    return [float(place in plan.cuts) for place in range(2, OPERATORS + 1)] + [float(plan.uses_attention)]


def read(path: str) -> List[Line]:
    """Lines `BITS   VALUE`: 16 characters 0 or 1 and a positive number, smaller is better; empty lines are skipped.

    Raises OSError, and BadLines.
    """
    found, bad = [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    found.append(_line(line))
                except ValueError as error:
                    bad.append(f"{path}:{number}: {error}")
    if bad:
        raise BadLines("\n".join(bad))
    if len(found) < 10:
        raise BadLines(f"{path}: {len(found)} lines; training needs 10 or more")
    return found


def _line(line: str) -> Line:
    words = line.split()
    if len(words) != 2:
        raise ValueError(f"{len(words)} words; a line is BITS VALUE")
    plan = plans.from_bits(words[0])
    value = float(words[1])
    if not 0 < value < math.inf:
        raise ValueError(f"the value is {words[1]}; it must be positive and finite")
    return plan, value


class Predictor:
    """Predicts the logarithm, so that errors count as ratios."""

    def __init__(self, booster: Any, threshold: float) -> None:
        self.booster = booster
        self.threshold = threshold

    @classmethod
    def train(cls, lines: Sequence[Line], seed: int = 0) -> "Predictor":
        """Raises Missing."""
        xgb = xgboost()
        logs = [math.log(value) for _, value in lines]
        data = matrix([plan for plan, _ in lines], logs)
        settings = {**SETTINGS, "seed": seed, "base_score": statistics.mean(logs)}
        values = sorted(value for _, value in lines)
        return cls(xgb.train(settings, data, ROUNDS), values[int(FAST * (len(values) - 1))])

    def predict(self, wanted: Sequence[Plan]) -> List[float]:
        return [math.exp(value) for value in self.booster.predict(matrix(wanted)).tolist()]

    def is_fast(self, value: float) -> bool:
        """Whether a predicted value is among the best quarter of what was trained on."""
        return value <= self.threshold

    def save(self, path: str) -> None:
        """One line of JSON about the model, then XGBoost's own JSON."""
        text = bytes(self.booster.save_raw("json"))
        about = {"format": FORMAT, "threshold": self.threshold, "sha256": hashlib.sha256(text).hexdigest()}
        # By way of another file: a model that is being replaced stays whole.
        with open(path + ".part", "wb") as file:
            file.write(json.dumps(about).encode() + b"\n" + text)
        os.replace(path + ".part", path)

    @classmethod
    def load(cls, path: str) -> "Predictor":
        """Raises Missing, OSError, and ValueError for a file that is not whole or no model of `save`."""
        xgb = xgboost()
        with open(path, "rb") as file:
            head, _, text = file.read().partition(b"\n")
        try:
            about = json.loads(head)
            known = about["format"] == FORMAT and about["sha256"] == hashlib.sha256(text).hexdigest()
            threshold = float(about["threshold"])
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:  # XGBoost 3.2 ends the process by a segmentation fault on a file that is empty or cut off
            raise ValueError(f"{path} is no model of this predictor; make one: python -m operator_fusion train")
        return cls(xgb.Booster(model_file=bytearray(text)), threshold)


def train(lines: Sequence[Line], seed: int = 0) -> Tuple[Predictor, Report]:
    """A predictor of all lines, and how well one without a fifth of the plans predicts that fifth.

    All lines of a plan are held out together. Raises Missing, and ValueError for fewer than three plans.
    """
    different = list(dict.fromkeys(plan.as_run() for plan, _ in lines))
    if len(different) < 3:
        raise ValueError(f"lines of {len(different)} plan{'s' * (len(different) != 1)}; training needs 3 or more plans")
    drawn = set(random.Random(seed).sample(different, max(2, int(HELD_OUT * len(different)))))
    held_out = [line for line in lines if line[0].as_run() in drawn]
    kept = [line for line in lines if line[0].as_run() not in drawn]
    predicted = Predictor.train(kept, seed).predict([plan for plan, _ in held_out])
    values = [value for _, value in held_out]
    from scipy.stats import spearmanr  # xgboost needs scipy, so it is there

    error = statistics.median(abs(p - v) / v for p, v in zip(predicted, values))
    report = Report(len(lines), len(held_out), float(spearmanr(predicted, values).statistic), error)
    return Predictor.train(lines, seed), report


def matrix(wanted: Sequence[Plan], labels: "Optional[Sequence[float]]" = None) -> Any:
    """The plans' features as XGBoost takes them; labels are logarithms."""
    import numpy

    return xgboost().DMatrix(numpy.array([features(plan) for plan in wanted]), label=labels)
