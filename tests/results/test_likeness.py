"""Unlike records are never averaged, and what separates them is named."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.results.likeness import IDENTITY, differing, groups, identity

CHANGES = {
    "metric": "other", "unit": "s", "params": {"batch": 16, "impl": "ours"}, "recipe": "faith",
    "variant": "cuda", "commit": "ab" * 20, "dirty": True, "changes": "cd" * 20, "node": "b",
    "benchmark": "backward", "command": "python3 -m other", "input_hash": "00" * 32,
    "image_digest": "sha256:00", "cpu": "Xeon", "threads": 4, "gpu": "H200", "driver": "570.1",
    "environment": {"torch": "2.6.0"}, "files": {"graph.npz": "ff"},
    "services": {"database": "sha256:3"}, "warm_up": 5, "env_file": {"TOKEN": "1f"},
}  # fmt: skip


def test_the_changes_cover_every_field_that_makes_records_unlike():
    assert set(CHANGES) == set(IDENTITY)


@pytest.mark.parametrize("field", IDENTITY)
def test_records_that_differ_in_one_field_are_two_groups(record, field):
    one, other = groups([record(), record(**{field: CHANGES[field]})])
    assert {name.partition(".")[0] for name in differing([one, other])} == {field}


def test_like_records_are_pooled_with_their_spread(record):
    later = record(samples=(10.0, 4.0), time="2027-01-01T00:00:00Z", clocks={"sm": 1500}, reprokit="0.2.0")
    (summary,) = groups([record(samples=(1.0, 3.0, 2.0)), later])
    assert (summary.median, summary.samples) == (3.0, [1.0, 3.0, 2.0, 10.0, 4.0])
    assert (len(summary.runs), summary.last) == (2, later.time)


def test_only_the_keys_that_differ_are_named(record):
    other = record(params={"batch": 8, "impl": "torch", "extra": 1}, environment={"torch": "2.6.0"})
    assert differing(groups([record(), other])) == ["params.extra", "params.impl", "environment.torch"]


def test_true_one_and_one_point_zero_are_three_parameters(record):
    kinds = [record(params={"n": n}) for n in (1, 1.0, True, "1")]
    assert len(groups(kinds)) == 4
    assert differing(groups(kinds)) == ["params.n"]


def test_the_order_of_parameters_means_nothing(record):
    one = record(params={"a": 1, "b": {"c": 1, "d": 2}})
    other = record(params={"b": {"d": 2, "c": 1}, "a": 1})
    assert len(groups([one, other])) == 1


@pytest.mark.slow
@given(st.lists(st.fixed_dictionaries({}, optional={k: st.just(v) for k, v in CHANGES.items()}), min_size=1))
def test_groups_are_exactly_what_may_be_pooled(record, changes):
    records = [record(**change, samples=(1.0, n + 2.0)) for n, change in enumerate(changes)]
    found = groups(records)
    assert sum(len(group.runs) for group in found) == len(records)
    for group in found:
        alike = [r for r in records if identity(r) == json.dumps(dict(group.identity), sort_keys=True)]
        assert len(alike) == len(group.runs)
    for one, other in itertools.pairwise(found):
        assert differing([one, other])


def test_the_clock_of_a_moment_makes_no_records_unlike(record):
    def at(clock, name="H100"):
        return record(environment={"torch": "2", "device": {"name": name, "clocks": {"sm": clock}}})

    (pooled,) = groups([at("345"), replace(at("1980"), samples=(2.0, 2.5))])
    assert len(pooled.runs) == 2 and at("345").environment["device"]["clocks"] == {"sm": "345"}
    assert len(groups([at("345"), at("345", "H200")])) == 2


def test_the_same_record_counts_once(record):
    one, other = record(samples=(1.0, 1.5)), record(samples=(2.0, 2.5))
    (group,) = groups([one, other, one])
    assert group.samples == [1.0, 1.5, 2.0, 2.5]
    assert group.doubts == ["repeated records count once: 1"]
    # Runs of one second may have equal results where these are no timings.
    (group,) = groups([record(samples=(0.9,)), record(samples=(0.9,))])
    assert (group.samples, group.doubts) == ([0.9, 0.9], [])
