"""`check` before a build."""

from __future__ import annotations

import pytest

from reprokit.errors import WorkFailed
from reprokit.image.findings import errors_of
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
