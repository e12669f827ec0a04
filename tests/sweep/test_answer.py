"""What a worker returns: records of its job, and of nothing else."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from reprokit.sweep.answer import records_of
from tests.support.sweeps import JOB, answer, output

OWN = replace(JOB, params={"N": 1, "LAYOUT": "row"})


def changed(**changes) -> str:
    """The answer with other fields of its record, also ones that no record can have."""
    data = json.loads(output(OWN))
    data["records"][0] |= changes
    return json.dumps(data)


def test_records_get_the_job_and_the_alias_of_the_place():
    text = output(OWN, params={**OWN.params, "impl": "ours"}, node="root@secret", job="another")
    (record,) = records_of(answer(OWN, text))
    assert (record.job, record.node, record.params) == ("j", "node1", {"N": 1, "LAYOUT": "row", "impl": "ours"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no records"),
        ('{"records": {"0": 1}}', "has no records"),
        ('{"records": []}', "measured nothing"),
        ('{"records": [], "left_out": [{"reason": "it needs a GPU"}]}', "it needs a GPU"),
        ('{"records": [], "failed": ["x"]}', "measured nothing"),
        ('{"records": [1]}', "not a record"),
        ('{"records": [null]}', "not a record"),
        (json.dumps({"records": [{}] * 10_001}), "10001 records, more than 10000"),
        ("x" * (17 << 20), "longer than 16 MiB"),
        ('{"records": [' + "0, " * 400_000 + "0]}", "more than 300000 values"),
        (changed(recipe="y"), "another recipe: 'y', not 'x'"),
        (changed(variant="cuda"), "another variant"),
        (changed(benchmark="other"), "another benchmark"),
        (changed(command="rm -rf /"), "another command"),
        (changed(lock_hash="00"), "another lock_hash"),
        (changed(params={"N": 2, "LAYOUT": "row"}), "other parameters: N=2"),
        (changed(params={"N": True, "LAYOUT": "row"}), "other parameters: N=True"),
        (changed(params={"N": 1.0, "LAYOUT": "row"}), "other parameters: N=1.0"),
        (changed(params={"LAYOUT": "row"}), "other parameters: N=None"),
        (changed(variables={"N": True, "LAYOUT": "row"}), "other parameters: N=True"),
        (changed(variables=OWN.params, params={"N": 2, "LAYOUT": "row"}), "other parameters: N=2"),
        (changed(variables=OWN.params, params={"N": True, "LAYOUT": "row"}), "other parameters: N=True"),
        (changed(variables=OWN.params, params={"LAYOUT": "row"}), "other parameters: N=None"),
        (changed(samples=[]), "not a record"),
        (changed(samples=[float("nan")]), "not a record"),
        (changed(samples=[1e300]), "not a record"),
        (changed(seconds=-1), "not a record"),
        (changed(schema=99), "unknown schema"),
        (changed(params="\x1b[2J"), "not a record"),
        (json.dumps({"records": json.loads(output(OWN))["records"] * 2}), "two records of 'attention.forward'"),
    ],
    ids=itertools.count(),
)
def test_hostile_foreign_double_and_huge_answers_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        records_of(answer(OWN, text))


@pytest.mark.parametrize(("value", "printed"), [(True, "true"), (1.0, 1), ("8", 8), (8, "8")])
def test_a_program_may_print_a_variable_in_another_way(value, printed):
    job = replace(JOB, params={"N": value})
    (record,) = records_of(answer(job, output(job, variables=job.params, params={"N": printed})))
    assert record.variables == {"N": value} and record.params == {"N": printed}


def test_a_long_text_of_a_worker_is_cut():
    with pytest.raises(ValueError) as refused:
        records_of(answer(OWN, changed(recipe="\x1b" * 100_000)))
    assert len(str(refused.value)) < 300
