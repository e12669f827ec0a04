"""How well `reprokit explain` names causes: the scores of the corpus by area, and its speed: `make bench`.

Some of the logs are held out: no rule was written for them. Each log stands in the noise of a build, once plain and
once in the form that its name draws (colours, carriage returns, JSON of Docker and BuildKit, times before lines).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from copy import copy
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprokit.explain.index import WordIndex
from reprokit.explain.judge import explain
from reprokit.explain.load import matcher
from reprokit.explain.model import KINDS, Neighbour
from tests.support import logs
from tests.support.scores import Score, judge


def table(title: str, chosen: list[logs.Log], form: Callable[[logs.Log], Callable[[str], str]]) -> None:
    areas: dict[str, Score] = defaultdict(Score)
    for log in chosen:
        score = judge(log, form(log))
        areas[log.area].add(score)
        areas["all"].add(score)
        if show_missed and score.first + score.quiet < 1:
            found = explain(logs.stream(form(log)(log.noisy())))
            print("  missed:", log.name, log.rule, [(cause.rule, cause.line) for cause in found.causes[:3]])
    print(f"\n{title}\n{'area':10} {'logs':>5} {'first':>7} {'top 3':>7} {'line':>7} {'quiet':>7}")
    for area, score in sorted(areas.items(), key=lambda item: (item[0] == "all", item[0])):
        number = score.failures + score.successes
        parts = [(score.first, score.failures), (score.top, score.failures), (score.near, score.failures)]
        shown = [
            f"{part / whole:6.1%}" if whole else "     -" for part, whole in [*parts, (score.quiet, score.successes)]
        ]
        print(f"{area:10} {number:5} {' '.join(f'{text:>7}' for text in shown)}")


def speed(megabytes: int) -> None:
    """Seconds for a log of this size, in the forms that the limits are set for."""
    for form in (logs.plain, logs.coloured, logs.docker_json):
        unit = form(logs.noise("compile", 20_000)).encode()
        with tempfile.TemporaryFile() as file:
            for _ in range(megabytes * 1_000_000 // len(unit)):
                file.write(unit)
            file.write(
                form("a.cc:1:10: fatal error: cudnn.h: No such file or directory\nmake: *** [all] Error 1\n").encode()
            )
            file.seek(0)
            began = time.process_time()
            found = explain(file)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rule = found.causes[0].rule if found.causes else "none"
        seconds = time.process_time() - began
        print(f"{form.__name__:12} {megabytes} MB: {seconds:5.1f} s of CPU, peak {peak:.0f} MB, {rule}")


class Without:
    """The word index without the lines of one source."""

    def __init__(self, index: WordIndex, source: str) -> None:
        self.index, self.source = index, source

    def nearest(self, text: str) -> list[Neighbour]:
        return self.index.nearest(text, self.source)


def measure(chosen: list[logs.Log]) -> None:
    """Print rules/measured.yaml: right first answers and all, by kind and by what the index says of the line."""
    opinions = ("differs", "agrees", "near")
    counts = {kind: {opinion: [0, 0] for opinion in opinions} for kind in KINDS}
    for log in chosen:
        rules = copy(matcher())
        rules.index = Without(matcher().index, log.source)
        rules.measured = {kind: {opinion: (n, 1) for n, opinion in enumerate(opinions)} for kind in KINDS}
        causes = explain(logs.stream(log.noisy()), rules=rules).causes
        if causes:
            count = counts[causes[0].kind][opinions[round(causes[0].confidence)]]
            count[0] += causes[0].rule in (log.rule, *log.also)
            count[1] += 1
    for kind, row in counts.items():
        print(f"{kind}: {{{', '.join(f'{opinion}: {count}' for opinion, count in row.items())}}}")


parser = argparse.ArgumentParser()
parser.add_argument("--megabytes", type=int, default=500)
parser.add_argument("--missed", action="store_true", help="name the logs whose cause was missed; never for held out")
parser.add_argument("--no-scores", dest="scores", action="store_false", help="only the speed")
parser.add_argument("--measure", action="store_true", help="print reprokit/explain/rules/measured.yaml")
options = parser.parse_args()
show_missed = options.missed
if not options.scores:
    speed(options.megabytes)
    sys.exit()
everything = logs.corpus()
if options.measure:
    measure([log for log in everything if log.held_out and log.rule])
    sys.exit()
table("written for, plain", [log for log in everything if not log.held_out], lambda log: logs.plain)
table("written for, in its form", [log for log in everything if not log.held_out], lambda log: logs.FORMS[log.form])
show_missed = False
table("held out, plain", [log for log in everything if log.held_out], lambda log: logs.plain)
table("held out, in its form", [log for log in everything if log.held_out], lambda log: logs.FORMS[log.form])
if options.megabytes:
    print()
    speed(options.megabytes)
