"""`check` before a build."""

from __future__ import annotations

import pytest

from reprokit.compat.model import KnownHost
from reprokit.errors import EngineError, WorkFailed
from reprokit.host.fit import errors_of, host_errors_of
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from tests.support.builds import RECIPE, target_of

CLASH = RECIPE.format(name="clash", base="ubuntu:20.04").replace('python: "3.11"', 'cuda: "10.2", gcc: "9"')


def clash() -> Target:
    target = target_of("x")
    return Target(load_text(CLASH, "clash.yaml", "clash"), "v", target.path)


def test_what_fits_goes_on_in_silence():
    assert errors_of(target_of("x"), False, pytest.fail) == []


def test_errors_stop_a_build_and_name_both_sides():
    with pytest.raises(WorkFailed) as error:
        errors_of(clash(), False, pytest.fail)
    assert error.value.exit_code == 1
    assert "cuda=10.2" in error.value.message and "gcc=9" in error.value.message
    assert "`reprokit check clash:v`" in error.value.hint and "--force" in error.value.hint


def test_force_goes_past_them_and_says_so():
    said: list[str] = []
    errors = errors_of(clash(), True, said.append)
    assert errors and said == [f"ignored because of --force: {error}" for error in errors]


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
    # The pins are another matter.
    assert host_errors_of(clash(), SMALL, False, pytest.fail, "") == []
