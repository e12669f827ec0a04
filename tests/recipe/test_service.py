"""Services of a variant: what is refused, and the recipes that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.recipe.find import Target, service_targets, target

HEAD = "variants:\n  cpu:\n    base: debian:12\n    services:\n"


def test_a_service_may_be_overridden_and_removed(load):
    recipe = load(
        f"{HEAD}      db: {{image: 'postgres:16', env: {{A: a, B: b}}, ports: [5432]}}\n"
        "      cache: {recipe: 'other:cpu', command: [serve], ready: [check]}\n"
        "  gpu: {extends: cpu, services: {cache: null, db: {env: {B: c}}}}\n"
    )
    (db,) = recipe.variants["gpu"].services.values()
    assert (db.image, dict(db.env), db.ports, db.timeout) == ("postgres:16", {"A": "a", "B": "c"}, [5432], 60)
    assert list(recipe.variants["cpu"].services) == ["db", "cache"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("db: {ports: [1]}", "either `image` or `recipe`"),
        ("db: {image: x, recipe: y, ports: [1]}", "either `image` or `recipe`"),
        ("db: {image: x}", "when it is ready"),
        ("db: {recipe: y, ports: [1]}", "needs `command`"),
        ("db: {image: x, ports: [65536]}", "less than or equal to 65535"),
        ("db: {image: x, ports: [0]}", "greater than or equal to 1"),
        ("db: {image: x, ports: [1], timeout: 100000}", "less than or equal to 3600"),
        ("db: {recipe: ../y, command: [x], ports: [1]}", "not NAME or NAME:VARIANT"),
        ("db: {recipe: y.yaml, command: [x], ports: [1]}", "not NAME or NAME:VARIANT"),
        ("db: {recipe: 'y.yaml:v', command: [x], ports: [1]}", "not NAME or NAME:VARIANT"),
        ("db: {image: 'x;id', ports: [1]}", "not allowed"),
        ('db: {image: x, ports: [1], env: {A: "b\\nc"}}', "control characters"),
        ("db: {image: x, ports: [1], privileged: true}", "unknown field"),
        ("db: {image: x, ports: [1], mounts: [{source: ., target: /x}]}", "unknown field"),
        ("db: {image: x, ports: [1], workspace: other}", "unknown field"),
        ("localhost: {image: x, ports: [1]}", "a name of every container"),
        ("ip6-loopback: {image: x, ports: [1]}", "a name of every container"),
        ("reprokit-paper-cpu: {image: x, ports: [1]}", "of reprokit"),
        ("paper: {image: x, ports: [1]}", "host name of the recipe's own container"),
        ("github.com: {image: x, ports: [1]}", "not allowed"),
        ('"d\\eb[31m": {image: x, ports: [1]}', "not allowed"),
        ("'../db': {image: x, ports: [1]}", "not allowed"),
        (", ".join(f"s{n}: {{image: x, ports: [1]}}" for n in range(17)), "at most 16"),
    ],
)
def test_what_is_refused(load, text: str, why: str):
    with pytest.raises(UsageError) as error:
        load(f"variants: {{cpu: {{base: 'debian:12', services: {{{text}}}}}}}\n")
    assert why in error.value.message and error.value.where == "paper.yaml:3"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`write(name, recipe)`: a recipe with one service, which is of this recipe, if any."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()

    def write(name: str, service: str = "") -> Target:
        text = f"name: {name}\npaper: {{title: T, venue: V, year: 2020, licence: MIT}}\n{HEAD}"
        text += f"      db: {{recipe: '{service}', command: [x], ports: [1]}}\n" if service else "      {}\n"
        (tmp_path / "recipes" / f"{name}.yaml").write_text(text)
        return target(name)

    return write


def test_the_recipe_of_a_service(write):
    write("other")
    assert {name: other.label for name, other in service_targets(write("mine", "other")).items()} == {"db": "other:cpu"}


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({}, "the service db: unknown recipe 'other'"),
        ({"othre": ""}, "did you mean othre"),
        ({"other": "mine"}, "which has services of its own"),
        ({"other": "other"}, "which has services of its own"),
    ],
)
def test_unknown_recipes_and_cycles(write, others: dict[str, str], why: str):
    for name, service in others.items():
        write(name, service)
    with pytest.raises(UsageError) as error:
        service_targets(write("mine", "other"))
    assert why in error.value.message and error.value.where.endswith("recipes/mine.yaml:7")


def test_a_variant_may_serve_another_one_of_its_recipe(write, tmp_path: Path):
    write("mine", "mine:plain")
    with (tmp_path / "recipes" / "mine.yaml").open("a") as file:
        file.write("  plain: {base: 'debian:12'}\n")
    assert service_targets(target("mine"))["db"].label == "mine:plain"
