"""Unlike records are never averaged, and what separates them is named; the record's schema; which records are old."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.results.likeness import IDENTITY, differing, groups, identity
from reprokit.results.record import MachineFacts, MachineState, json_schema
from reprokit.results.selection import old, selection
from tests.support.paths import ROOT

CHANGES = {
    "metric": "other", "unit": "s", "params": {"batch": 16, "impl": "ours"}, "recipe": "faith",
    "variant": "cuda", "commit": "ab" * 20, "dirty": True, "changes": "cd" * 20, "node": "b",
    "benchmark": "backward", "command": "python3 -m other", "input_hash": "00" * 32,
    "image_digest": "sha256:00", "cpu": "Xeon", "threads": 4, "gpu": "H200", "driver": "570.1",
    "environment": {"torch": "2.6.0"}, "files": {"graph.npz": "ff"},
    "warm_up": 5, "env_file": {"TOKEN": "1f"},
}  # fmt: skip


def test_records_that_differ_in_one_field_are_two_groups(record):
    assert set(CHANGES) == set(IDENTITY)
    for field in IDENTITY:
        one, other = groups([record(), record(**{field: CHANGES[field]})])
        assert {name.partition(".")[0] for name in differing([one, other])} == {field}


def test_like_records_are_pooled_with_their_spread_and_the_same_record_once(record):
    later = record(samples=(10.0, 4.0), time="2027-01-01T00:00:00Z", clocks={"sm": 1500}, reprokit="0.2.0")
    first = record(samples=(1.0, 3.0, 2.0))
    (group,) = groups([first, later])
    assert (group.median, group.samples, group.doubts) == (3.0, [1.0, 3.0, 2.0, 10.0, 4.0], [])
    assert (len(group.runs), group.last) == (2, later.time)
    (group,) = groups([first, later, first])
    assert (group.samples, group.doubts) == ([1.0, 3.0, 2.0, 10.0, 4.0], ["repeated records count once: 1"])
    # Runs of one second may have equal results where these are no timings.
    (group,) = groups([record(samples=(0.9,)), record(samples=(0.9,))])
    assert (group.samples, group.doubts) == ([0.9, 0.9], [])


def test_only_the_keys_that_differ_are_named(record):
    other = record(params={"batch": 8, "impl": "torch", "extra": 1}, environment={"torch": "2.6.0"})
    assert differing(groups([record(), other])) == ["params.extra", "params.impl", "environment.torch"]
    # 1, 1.0 and true are three parameters; the order of parameters means nothing.
    kinds = groups([record(params={"n": n}) for n in (1, 1.0, True, "1")])
    assert len(kinds) == 4 and differing(kinds) == ["params.n"]
    orders = {"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1}
    assert len(groups([record(params=params) for params in orders])) == 1


@pytest.mark.slow
@given(st.lists(st.fixed_dictionaries({}, optional={k: st.just(v) for k, v in CHANGES.items()}), min_size=1))
def test_groups_are_exactly_what_may_be_pooled(record, changes):
    records = [record(**change, samples=(1.0, n + 2.0)) for n, change in enumerate(changes)]
    pooled = groups(records)
    assert sum(len(group.runs) for group in pooled) == len(records)
    for group in pooled:
        alike = [r for r in records if identity(r) == json.dumps(dict(group.identity), sort_keys=True)]
        assert len(alike) == len(group.runs)
    for one, other in itertools.pairwise(pooled):
        assert differing([one, other])


def test_the_clock_of_a_moment_makes_no_records_unlike(record):
    def at(clock, name="H100"):
        return record(environment={"torch": "2", "device": {"name": name, "clocks": {"sm": clock}}})

    (pooled,) = groups([at("345"), replace(at("1980"), samples=(2.0, 2.5))])
    assert len(pooled.runs) == 2 and at("345").environment["device"]["clocks"] == {"sm": "345"}
    assert len(groups([at("345"), at("345", "H200")])) == 2


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
    data, validator = json.loads(full.to_json()), jsonschema.Draft202012Validator(published)
    assert validator.is_valid(data) and not validator.is_valid({**data, "schema": 1})
    for wrong in ({"samples": []}, {"samples": ["1"]}, {"schema": 3}, {"threads": "2"}):
        assert not validator.is_valid({**data, **wrong})


def test_the_spread_is_the_coefficient_of_variation(record):
    assert record(samples=(9.0, 11.0)).spread == 2**0.5 / 10
    assert record(samples=(9.0,)).spread is None and record(samples=(0.0, 0.0)).spread is None


def test_an_image_that_differs_from_its_lock_is_a_doubt(record):
    for verdict, doubts in (("differs", ("the image differs from what its lock gives",)), ("same", ()), ("", ())):
        assert record(image_verified=verdict).doubts == doubts


def test_the_last_records_of_one_second_stay(record):
    records = [record(samples=(float(n), 9.0)) for n in range(3)]
    assert old(records, None, 1) == [records[1], records[0]]


def test_two_engines_images_of_one_canonical_digest_are_the_same_image(record):
    one, other = (
        record(image_digest="sha256:aa11", image_canonical="sha256:cc"),
        record(image_digest="sha256:bb22", samples=(1.0, 2.0)),
    )
    assert len(groups([one, other])) == 2
    stated = replace(other, image_canonical="sha256:cc", samples=(1.0, 2.5))
    (pooled,) = groups([one, other, stated])  # also the record from before the digest was computed
    assert pooled.identity["image_digest"] == "sha256:cc" and len(pooled.runs) == 3
    for word in ("aa11", "bb22"):
        assert selection(word, [pooled]).groups([pooled]) == [pooled]
    assert old([one, stated], None, 1) == [one]


def test_a_record_with_another_images_digest_spoils_no_other(record):
    honest = record(image_digest="sha256:aa", image_canonical="sha256:cc")
    # Other inputs stay apart whatever image a record claims.
    forged = record(image_digest="sha256:ee", image_canonical="sha256:cc", input_hash="00" * 32)
    assert len(groups([honest, forged])) == 2
    # If records contradict each other about an image, the engine's ID counts.
    lying = record(image_digest="sha256:aa", image_canonical="sha256:dd")
    other = record(image_digest="sha256:bb", image_canonical="sha256:dd", samples=(1.0, 2.5))
    pooled = groups([honest, lying, other])
    assert [group.identity["image_digest"] for group in pooled] == ["sha256:aa", "sha256:dd"]
