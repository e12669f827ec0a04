"""The record's published schema, and what a record must not hold."""

from __future__ import annotations

import json

import pytest

from reprokit.results.record import MachineFacts, MachineState, json_schema
from tests.support.paths import ROOT


@pytest.mark.slow
def test_the_published_schema_is_current_and_fits(record):
    # Here, because it compiles grammars for a second, in each worker of the suite.
    import jsonschema

    published = json.loads((ROOT / "docs/record.schema.json").read_text())
    assert published == json_schema(), "write it again: reprokit results schema > docs/record.schema.json"
    full = record(
        machine=MachineFacts(sockets=1, cores=2, numa_nodes=1, memory=1 << 34, caches={"L3": 1 << 25}),
        before=MachineState(load=0.1, cpu_clock=2800, gpu_clock=(1980,), gpu_slowdown=("heat",)),
        repeats=(3,),
        warnings=("heat",),
    )
    jsonschema.validate(json.loads(full.to_json()), published)
    jsonschema.validate({**json.loads(full.to_json()), "schema": 1}, published)
    for wrong in ({"samples": []}, {"samples": ["1"]}, {"schema": 3}, {"threads": "2"}):
        assert not jsonschema.Draft202012Validator(published).is_valid({**json.loads(full.to_json()), **wrong})


def test_the_spread_is_the_coefficient_of_variation(record):
    assert record(samples=(9.0, 11.0)).spread == 2**0.5 / 10
    assert record(samples=(9.0,)).spread is None and record(samples=(0.0, 0.0)).spread is None


def test_an_image_that_differs_from_its_lock_is_a_doubt(record):
    for verdict, doubts in (("differs", ("the image differs from what its lock gives",)), ("same", ()), ("", ())):
        assert record(image_verified=verdict).doubts == doubts
