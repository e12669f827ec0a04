"""The report: what it says, equal bytes for equal records, quick and small with many, harmless with hostile ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from reprokit.compat.facts import bundled
from reprokit.recipe.find import load_recipe
from reprokit.results.claims import judge
from reprokit.results.likeness import groups
from reprokit.results.lines import append
from reprokit.results.record import MachineFacts, MachineState
from reprokit.results.report import VariantFacts, as_html, as_summary, recipe_report, report
from tests.support.paths import ROOT
from tests.support.records import RECORD

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>${7*7}{{7*7}}$\\frac$\x1b[2J\u202e"
SPMM = replace(RECORD, recipe="featgraph", metric="spmm.time", benchmark="spmm", unit="s")


def page(*records):
    recipe = load_recipe("featgraph")
    judged = judge(recipe, groups(records), bundled())
    return report([recipe_report(recipe, records, judged, [VariantFacts("cpu", None, ("warning: old",))])])


def test_the_page_has_claims_environment_plots_tables_machines_and_commands():
    machine = MachineFacts(1, 2, 1, 16_000_000_000, {"L3": 33_554_432})
    state = MachineState(load=0.1, cpu_clock=2800)
    records = [
        replace(SPMM, params={"num_col_partitions": n}, machine=machine, before=state, repeats=(3,), commit="ab" * 20)
        for n in (1, 2, 4)
    ]
    text = as_html(page(*records))
    for part in (
        "end-to-end GNN training", "not measured", "warning: old", "llvm 11", "ab" * 6, "16.0 GB", "L3 34 MB",
        "0.1 processors busy, 2800 MHz", "reprokit bench featgraph:cpu spmm --repeat 1", "num_col_partitions",
        "Artifacts available", "<svg", "2e2e2e2e2e2e",
    ):  # fmt: skip
        assert part in text, part
    summary = as_summary(page(*records))
    assert summary.startswith("# Reproduction of featgraph\n") and "| 4 | 2 |" in summary


def test_the_badges_name_each_place_of_the_paper_once_and_count_in_words():
    recipe = load_recipe("atoffer")
    more = [claim.model_copy(update={"where": f"Table {n}"}) for n, claim in enumerate(recipe.claims, 100)]
    recipe = recipe.model_copy(update={"claims": [*recipe.claims, *more]})
    found = dict(recipe_report(recipe, [RECORD], judge(recipe, [], bundled()), []).badges)
    places = found["Functional: consistent"].split("; ")
    assert len(places) == len(set(places)) == len({claim.where for claim in recipe.claims}) > 12
    assert found["Functional: exercisable"] == "6 smoke commands, 5 benchmarks, 1 record"


def test_a_plot_has_records_of_one_commit_and_driver():
    changes = ({}, {"commit": "a" * 40}, {"driver": "570"})
    records = [replace(SPMM, params={"n": n}, samples=(n * 1.0,), **change) for change in changes for n in (1, 2, 4)]
    (part,) = page(*records).recipes
    assert len(part.plots) == 3 and sum("commit aaaaaaaaaaaa" in plot.caption for plot in part.plots) == 1


def test_the_machine_is_that_of_the_latest_record_and_what_is_unknown_of_it_is_not_0():
    old = replace(SPMM, metric="z", time="2025-01-01T00:00:00Z", warnings=("old",))
    (part,) = page(old, replace(SPMM, metric="a", time="2026-01-01T00:00:00Z", warnings=("new",))).recipes
    assert dict(part.machines[0][1])["in doubt"] == "new"
    for facts, text in [
        (MachineFacts(1, 2, 1), "2 cores, 1 socket, 1 NUMA node"),
        (MachineFacts(2, 64, 0), "64 cores, 2 sockets"),
        (MachineFacts(0, 0, 0), None),
    ]:
        (part,) = page(replace(SPMM, machine=facts)).recipes
        assert dict(part.machines[0][1]).get("cores") == text


@pytest.mark.slow
def test_the_commands_repeat_each_row():
    given = {"threads": 4, "scale": 1e-07, "text": "a b"}
    records = [
        replace(SPMM, repeats=(1, 1), warm_up=2, variables=given, params={**given, "printed": 1}),
        replace(SPMM, node="gpu1"),
        replace(SPMM, node="slurm-1f2e3a", benchmark="extension.forward"),
        replace(SPMM, benchmark="gone"),
    ]
    (found,) = page(*records).recipes
    bench = "reprokit bench featgraph:cpu"
    assert set(found.commands[1:-2]) == {
        f"{bench} spmm --repeat 2 --warm-up 2 --param threads=4 --param scale=1.0e-07 --param 'text=\"a b\"'",
        f"{bench} spmm --repeat 1 --on gpu1", f"{bench} forward --extension --repeat 1",
    }  # fmt: skip


def test_a_value_of_the_matrix_needs_no_option():
    recipe = load_recipe("featgraph")
    spmm = recipe.benchmarks["spmm"].model_copy(update={"matrix": {"n": [1, 2]}})
    recipe = recipe.model_copy(update={"benchmarks": {"spmm": spmm}})
    commands = recipe_report(recipe, [replace(SPMM, variables={"n": n}) for n in (1, 2, 3, True)], [], []).commands
    options = [command.partition("--repeat 1")[2] for command in commands[1:-2]]
    assert options == ["", " --param n=3", " --param n=true"]


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes(tmp_path):
    records = [replace(SPMM, params={"n": n, "impl": impl}) for n in range(5) for impl in ("a", "b")]
    append(tmp_path, "results/featgraph.jsonl", records)
    written = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "reprokit", "report", "featgraph", "-o", seed]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
        written.append([(tmp_path / seed / name).read_bytes() for name in ("index.html", "summary.md")])
    assert written[0] == written[1]


def test_hostile_records_are_text():
    records = [
        replace(
            SPMM, metric=EVIL, unit=EVIL, benchmark=EVIL, variant=EVIL, cpu=EVIL, gpu=EVIL, warnings=(EVIL,),
            params={EVIL: n, "impl": EVIL}, environment={EVIL: EVIL}, files={EVIL: EVIL}, clocks={EVIL: EVIL},
            node=EVIL, commit=EVIL,
        )
        for n in (1, 2)
    ]  # fmt: skip
    found = page(*records)
    for text in (as_html(found), as_summary(found)):
        assert "<script" not in text and "<img src=x" not in text and "onerror=alert(1)>" not in text
        assert not set("\x1b\u202e") & set(text)
        assert "49" not in re.sub(r"[0-9.]{3,}", "", text.partition("<svg")[0].partition("</style>")[2])
    # The control: the same text unescaped would be a script.
    assert "<script" in EVIL


@pytest.mark.slow
def test_ten_thousand_records_take_megabytes_and_what_has_no_plot_is_counted():
    records = [replace(SPMM, metric=f"m{n % 14}", params={"n": n // 14, "impl": f"i{n % 3}"}) for n in range(10_000)]
    report_page = page(*records)
    text = as_html(report_page)
    assert len(report_page.recipes[0].plots) == 12 and "2 further sets of like records have no plot." in text
    assert len(text.encode()) < 20e6
    assert "no plot" not in as_html(page(*records[:2]))


def test_the_summary_says_what_ran_where_and_shows_three_figures():
    records = [
        replace(RECORD, metric=metric, params={"n": n, "impl": impl, "mask": "none"}, checked=120)
        for metric in ("fused_attention.forward", "a", "b", "c") for n in (1, 2) for impl in ("ours", "sdpa")
    ]  # fmt: skip
    peak = replace(RECORD, metric="machine.peak", unit="GFLOP/s", params={"dtype": "a"})
    recipe = load_recipe("fused-attention")
    found = recipe_report(recipe, [*records, peak], judge(recipe, groups(records), bundled()), [])
    ran = dict(found.ran)
    assert ran["what ran"] == "fused-attention:cpu forward: 17 records" and ran["where"] == "EPYC, 2 threads"
    assert ran["correct"].startswith("120 results") and "not measured" in ran["claims"]
    assert [table.columns[-2:] for table in found.summaries] == [("fastest other", "ratio")]
    assert len(found.highlights) == 3 and len(found.plots) == 4  # a peak has none
    assert [len(each) for each in found.further_plots.values()] == [1]
    text = as_html(report([found]))
    for part in ("Claims", "Results", "Environment"):
        assert re.search(rf'href="#(recipe-1-[1-6])">{part}</a>[^§]*id="\1">{part}<', text), part


def test_the_newest_image_comes_first_and_an_empty_column_is_not_shown():
    old = [replace(SPMM, params={"n": n}, time="2026-01-01T00:00:00Z") for n in (1, 2, 3)]
    new = [replace(SPMM, params={"n": n}, image_digest="sha256:" + "9a" * 32) for n in (1, 2)]
    (part,) = page(*old, *new).recipes
    for texts in ([t.conditions for t in part.tables], [p.caption for p in part.plots]):
        assert len(texts) == 2 and "9a9a" in texts[0] and "2e2e" in texts[1]
    assert dict(part.environment[0][1])["images measured"].startswith("sha256:9a")
    (part,) = page().recipes
    assert "measured" not in part.claims.columns and part.claims.columns[1] == "verdict"
