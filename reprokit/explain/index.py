"""Explained lines by their words: a second opinion on a line's cause, and the nearest known thread.

A vector space with TF-IDF weights over words and pairs of words: Salton and Buckley 1988,
https://doi.org/10.1016/0306-4573(88)90021-0.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from reprokit.explain.model import LogRule, Neighbour

# Parts of names count by themselves: cudaErrorNoDevice, libcudnn_ops.so, torch.nn.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_URL = re.compile(r"\w+://\S+")
# Weights are kept as integers.
_SCALE = 100


class WordIndex:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self._lines: list[list[str]] = data["lines"]
        self._postings: dict[str, list[int]] = data["postings"]

    def nearest(self, text: str, without: str = "") -> list[Neighbour]:
        """For each rule its line that is most similar to the text, best first; `without` those of one source."""
        count = len(self._lines)
        weights = _normalised(
            {
                feature: (1 + math.log(number)) * math.log(count / (len(self._postings[feature]) // 2))
                for feature, number in _features(text).items()
                if feature in self._postings
            }
        )
        similarities: defaultdict[int, float] = defaultdict(float)
        for feature, weight in weights.items():
            postings = self._postings[feature]
            for line, other in zip(postings[::2], postings[1::2], strict=True):
                similarities[line] += weight * other / _SCALE
        best: dict[str, Neighbour] = {}
        for line, similarity in similarities.items():
            rule, source = self._lines[line]
            if source != without and (rule not in best or similarity > best[rule].similarity):
                best[rule] = Neighbour(rule, source if _URL.match(source) else "", similarity)
        return sorted(best.values(), key=lambda each: -each.similarity)


def indexed(rules: Iterable[LogRule], logs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of an index over the rules' examples and the explained lines of logs, as JSON's types."""
    ids = {rule.id for rule in rules}
    lines = [(rule.id, rule.seen, rule.example) for rule in rules]
    for log in logs:
        if log["rule"] in ids:
            line = next(line for line in log["log"].split("\n") if log["line"] in line)
            lines.append((log["rule"], log["source"], line))
    counts = [_features(text) for _, _, text in lines]
    frequency = Counter(feature for features in counts for feature in features)
    postings: defaultdict[str, list[int]] = defaultdict(list)
    for number, features in enumerate(counts):
        weights = {
            feature: (1 + math.log(count)) * math.log(len(lines) / frequency[feature])
            for feature, count in features.items()
        }
        for feature, weight in _normalised(weights).items():
            # A pair that occurs once finds only its own line.
            if (frequency[feature] > 1 or " " not in feature) and round(weight * _SCALE):
                postings[feature] += [number, round(weight * _SCALE)]
    return {"lines": [[rule, source] for rule, source, _ in lines], "postings": postings}


def words(text: str) -> list[str]:
    """The words of a line in lower case, without addresses, numbers and single letters."""
    return [word.lower() for word in _WORD.findall(_URL.sub(" ", text)) if len(word) > 1]


def _features(text: str) -> Counter[str]:
    own = words(text)
    return Counter([*own, *(f"{first} {second}" for first, second in pairwise(own))])


def _normalised(weights: dict[str, float]) -> dict[str, float]:
    norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {feature: weight / norm for feature, weight in weights.items()}
