"""Versions for a requirement that comes later, with uv itself and an index that gives upload times."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from reprokit.compat.facts import bundled
from reprokit.config import Configuration
from reprokit.importing.wheel_changes import WheelChanges
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors.places import Mirrors
from tests.support.fetching import HOSTS
from tests.support.json_index import Index
from tests.support.upstream import Upstream

VARIANT = Variant.model_validate(
    {
        "base": "debian:11",
        "pins": {"distro": "debian:11", "python": "3.9", "numpy": "1.0"},
        "wheels": ["numpy==1.0", "user==1.0"],
    }
)


@pytest.fixture
def changes(store, tmp_path: Path, upstream: Upstream):
    index = Index(upstream, tmp_path / "wheels")
    for version, day in (("1.0", "2020-01-01"), ("1.1", "2021-01-01"), ("2.0", "2022-01-01")):
        index.wheel("numpy", version, day)
        index.wheel("plain", version, day, requires=("inner",))
        index.wheel("inner", version, day)
    index.wheel("user", "1.0", "2020-01-01", requires=("numpy<2",))
    for version in ("1.0", "1.1"):
        index.wheel("needy", version, "2020-01-01", requires=(f"inner=={version}",))
    index.wheel("young", "1.0", "2022-01-01")
    index.wheel("young", "2.0", "2025-01-01")
    settings = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
    mirrors = Mirrors(store, Configuration(hosts=HOSTS), pip=settings)
    found = WheelChanges("2021-06-01T23:59:59Z", {}, mirrors, bundled(), lambda line: None)

    def run(text: str, variant: Variant = VARIANT):
        result = found.of(variant, Requirement(text))
        return (
            result
            if isinstance(result, str)
            else [(c.op, c.path.removeprefix("/variants/*/"), c.value) for c in result]
        )

    return run


def test_a_new_wheel_is_of_the_day_with_what_it_needs_and_the_others_stay(changes):
    assert sorted(changes("plain")) == [("add", "wheels/-", "inner==1.1"), ("add", "wheels/-", "plain==1.1")]


def test_another_version_replaces_its_entry_and_its_pin(changes):
    assert changes("numpy==1.1") == [("replace", "wheels/0", "numpy==1.1"), ("replace", "pins/numpy", "1.1")]


@pytest.mark.slow
def test_of_a_project_that_is_younger_than_the_day_the_first_release_is_taken(changes):
    assert changes("young") == [("add", "wheels/-", "young==1.0")]


def test_a_younger_wheel_of_an_earlier_round_stays(changes):
    variant = VARIANT.model_copy(update={"wheels": [*VARIANT.wheels, "young==1.0"]})
    assert changes("inner", variant) == [("add", "wheels/-", "inner==1.1")]


def test_others_follow_where_they_must(changes):
    variant = VARIANT.model_copy(update={"wheels": ["needy==1.0", "inner==1.0"]})
    found = sorted(changes("inner==1.1", variant))
    assert found == [("replace", "wheels/0", "needy==1.1"), ("replace", "wheels/1", "inner==1.1")]


@pytest.mark.slow
def test_what_does_not_fit_or_does_not_exist_is_said(changes):
    assert isinstance(changes("numpy>=2"), str) and isinstance(changes("missing"), str)
