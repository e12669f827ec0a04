"""The search in a container: its command, and what of its output is believed."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from typing import get_args

import pytest

from reprokit.bench import tuning
from reprokit.bench.parse import parse
from reprokit.bench.tuning import PlanSearch, SearchProgress, SearchReader
from reprokit.errors import UsageError
from tests.support.paths import ROOT
from tests.support.records import RECORD
from tests.support.searches import PROGRESS, ROW, SUMMARY, VERSUS

SEARCH = PlanSearch(
    {"batch": 8, "mask": "fixed", "window": None}, ["exact", "random"], 64, 3, "sha256:" + "ab" * 32, "cd" * 32
)


@pytest.fixture
def operator_fusion(monkeypatch):
    for name in ("operator_fusion", "fused_attention"):
        monkeypatch.syspath_prepend(str(ROOT / "workspaces" / name))


def read(text: str, pieces: int = 1 << 20) -> tuple[SearchReader, list[SearchProgress]]:
    seen: list[SearchProgress] = []
    reader = SearchReader(seen.append)
    for start in range(0, len(text), pieces):
        reader.add(text[start : start + pieces])
    return reader, seen


def test_the_program_takes_the_commands(operator_fusion):
    from operator_fusion import command, shapes, store

    text = SEARCH.benchmark().command.partition("exec ")[2]
    options = command.parser().parse_args(shlex.split(text)[3:])
    assert (options.batch, options.mask, options.strategy) == (8, "fixed", ["exact", "random"])
    assert (options.budget, options.seeds) == (64, 3)
    assert options.json and options.results == SEARCH.journal and options.plot == SEARCH.plot
    assert tuning.STRATEGIES == command.STRATEGIES
    assert (get_args(tuning.Mask), get_args(tuning.Dtype)) == (shapes.MASKS, shapes.DTYPES)
    # Those of other machines.
    machine = {"torch": "2.13.0", "processor": "EPYC '7", "threads": 1}
    options = command.parser().parse_args(shlex.split(SEARCH.replay(machine).partition("exec ")[2])[3:])
    assert (options.machine, options.results, options.seeds) == (machine, SEARCH.journal, 3)
    names = ["part 3 7 1", "plan 41115", "confirmed 7", "versus 7 41115"]
    single = SEARCH.single(names)
    options = command.parser().parse_args(shlex.split(single.command)[4:])
    assert (options.batch, options.mask, options.jobs, single.parse.expect) == (8, "fixed", names, 4)
    assert [store.name_of(store.job_named(name)) for name in options.jobs] == names


def test_no_value_of_the_command_line_is_read_by_the_shell():
    command = replace(SEARCH, shape={"device": "cpu; touch /x"}).benchmark().command
    assert "'--device=cpu; touch /x'" in command


def test_other_images_and_sources_have_other_journals():
    others = [replace(SEARCH, image="sha256:" + "00" * 32), replace(SEARCH, sources="00" * 32)]
    assert len({each.journal for each in [SEARCH, *others]}) == 3


@pytest.mark.parametrize("pieces", [1, 7, 1 << 20])
def test_progress_and_summary_arrive_in_pieces(pieces: int):
    text = f"noise\n{json.dumps({'progress': PROGRESS})}\n" * 3 + json.dumps({"summary": SUMMARY}) + "\n"
    reader, seen = read(text, pieces)
    assert [each.used for each in seen] == [8, 8, 8]
    assert reader.summary is not None and reader.summary.plan == 41115
    assert tuning.table(reader.summary) == [("random", "1", "64", "0.950", "0", "> 64", "1 %")]
    assert tuning.comparison(reader.summary) == [
        "random's best, plan 1: 1.010 [1.000, 1.020] of the time of exact's best"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"plan": -1}, {"plan": 65536}, {"segments": "\x1b[2J"}, {"segments": "1 " * 40}, {"time": 0}, {"time": 1e300},
        {"time": float("nan")}, {"rows": []}, {"rows": [ROW] * 6}, {"against": "\x1b[2J"}, {"versus": [VERSUS] * 6},
        {"rows": [{**ROW, "strategy": "x" * 1000}]}, {"rows": [{**ROW, "seeds": 10**400}]}, {"plotted": "[link]"},
    ],
)  # fmt: skip
def test_a_forged_summary_is_not_read(change: dict):
    assert read(json.dumps({"summary": SUMMARY}) + "\n")[0].summary
    assert read(json.dumps({"summary": {**SUMMARY, **change}}) + "\n")[0].summary is None


def test_missing_measurements_are_named_unless_forged():
    def missing(names: object):
        return read(json.dumps({"missing": names}) + "\n")[0].missing

    assert missing(["part 3 7 1", "versus 7 41115"]) == ["part 3 7 1", "versus 7 41115"]
    names = ("plan", "plan x", "--json", "plan 1 2 3 4", "plan 1\n", "plan 123456")
    for forged in ([], "plan 1", *([name] for name in names), ["plan 1"] * 1001):
        assert missing(forged) == (), forged


def test_a_line_that_is_no_progress_is_ignored():
    broken = ("[]", "[" * 50_000, '"\ud800"')
    for line in ('{"progress"', '{"progress"\0}', *(f'{{"progress": {text}}}' for text in broken)):
        _, seen = read(f"{line}\n{json.dumps({'progress': PROGRESS})}\n")
        assert len(seen) == 1, line


def test_a_line_without_an_end_takes_no_memory():
    good = json.dumps({"progress": PROGRESS})
    reader = SearchReader(lambda _: None)
    for _ in range(200):
        reader.add('{"progress": ' + "x" * 50_000)
        assert sys.getsizeof(vars(reader)["_rest"]) < 200_000
    seen: list[SearchProgress] = []
    reader._progress = seen.append
    reader.add(f"{good}\n{good}\n")
    assert len(seen) == 1, "the end of a dropped line was read as a line"


def test_what_was_recorded_before_is_not_recorded_again():
    known = replace(RECORD, params={"job": "plan", "id": "1"}, samples=(1.0, 1.1))
    again = replace(known, time="2026-11-22T09:00:00Z", command="another search")
    fresh = replace(again, samples=(1.0, 1.2))
    (new,) = SEARCH.new([again, fresh], [known])
    assert new.samples == (1.0, 1.2)
    assert new.command == "python3 -m operator_fusion tune --batch=8 --mask=fixed"
    # The program is no part of the image, and times of two versions of it are not pooled.
    assert new.files == {**RECORD.files, "operator-fusion": SEARCH.sources}


def test_the_lines_of_progress_are_no_measurements():
    record = {"metric": "operator_fusion.relative_time", "unit": "1", "samples": [1], "params": {"id": "1"}}
    lines = [{"progress": PROGRESS}, record, {"summary": SUMMARY}]
    found = parse(SEARCH.benchmark().parse, "\n".join(map(json.dumps, lines)))
    assert [each.samples for each in found.measurements] == [(1.0,)]


def test_a_misspelt_strategy_is_named():
    with pytest.raises(UsageError, match="unknown strategy 'exat'; did you mean exact"):
        tuning.strategy("exat")
