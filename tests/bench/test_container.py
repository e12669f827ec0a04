"""Which GPUs a bench or smoke container asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.bench.container import gpus_for
from reprokit.errors import UsageError
from reprokit.host import gpu as host_gpu
from reprokit.host.machine import LocalMachine
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe


class Engine:
    host = LocalMachine()

    def info(self) -> dict:
        return {}


def asked(gpu: str, option: str | None = None) -> str | None:
    recipe = Recipe.model_validate(
        {
            "name": "gnn",
            "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
            "variants": {"v": {"base": "debian:12", "requires": {"gpu": gpu}}},
        }
    )
    return gpus_for(Engine(), Target(recipe, "v", Path("gnn.yaml")), option)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu", "there", "choice"),
    [
        ("required", True, "all"),
        ("required", False, "none"),
        ("optional", True, None),
        ("optional", False, "none"),
        ("none", True, "none"),
    ],
)
def test_a_gpu_is_asked_for_where_the_recipe_wants_one_and_the_host_has_one(monkeypatch, gpu, there, choice):
    monkeypatch.setattr(host_gpu, "has_gpu", lambda offered: there)
    assert asked(gpu) == choice


def test_the_users_choice_comes_first():
    assert asked("none", "device=1") == "device=1"
    assert asked("required", "0") == "none"
    with pytest.raises(UsageError, match="not a choice of GPUs"):
        asked("required", "some")
