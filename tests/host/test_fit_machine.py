"""Whether a machine is large enough for a recipe."""

from __future__ import annotations

import pytest

from reprokit.compat.model import KnownHost
from reprokit.errors import EngineError
from reprokit.host.fit import host_errors_of
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from tests.support.builds import RECIPE, target_of

SMALL = KnownHost(4 << 30, 20 << 30)


def large() -> Target:
    target = target_of("x")
    text = RECIPE.format(name="large", base="debian:12").replace("driver:", "memory: 8GiB, disk: 30GiB, driver:")
    return Target(load_text(text, "large.yaml", "large"), "v", target.path)


def test_a_machine_that_is_too_small_stops_build_and_run_with_what_it_lacks():
    with pytest.raises(EngineError) as error:
        host_errors_of(large(), SMALL, False, pytest.fail, "or --force")
    assert error.value.exit_code == 3 and error.value.hint.endswith("or --force")
    assert "requires.memory=8.0 GiB with host.memory=4.0 GiB" in error.value.message
    assert "requires.disk=30.0 GiB with host.disk_free=20.0 GiB" in error.value.message
    said: list[str] = []
    assert len(host_errors_of(large(), SMALL, True, said.append, "")) == len(said) == 2
    for enough in (KnownHost(8 << 30, 30 << 30), KnownHost(None, None)):
        assert host_errors_of(large(), enough, False, pytest.fail, "") == []
