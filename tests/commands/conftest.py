"""The verbs, called as a user calls them but in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reprokit import cli
from reprokit.engine import Engine
from reprokit.errors import ReprokitError


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`call("list", "--json")` in an empty folder, with an empty store; errors come as `result.exception`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REPROKIT_RECIPES", raising=False)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return lambda *args: CliRunner().invoke(cli.app, [*args])


@pytest.fixture
def error(call: Callable[..., Result]) -> Callable[..., ReprokitError]:
    """`error(UsageError, "show", "x")`: the error of exactly this type that the verb ends with."""

    def raised(kind: type[ReprokitError], *args: str) -> ReprokitError:
        exception = call(*args).exception
        assert type(exception) is kind, exception
        return exception

    return raised


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[[str, str], Path]:
    """`recipe("x", text)` writes recipes/x.yaml where the user stands."""

    def write(name: str, variants: str) -> Path:
        head = f"name: {name}\npaper: {{title: '[b]A [/b] {name}', venue: V, year: 2020, licence: MIT}}\n"
        file = tmp_path / "recipes" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(head + variants)
        return file

    return write


@pytest.fixture
def tidied(debian_12: object) -> Iterator[Callable[[str], Engine]]:
    """`tidied(NAME)`: the engine, from which the recipe's containers and images are removed, whatever happened."""
    engine, recipes = Engine.connect(), list[str]()

    def for_recipe(name: str) -> Engine:
        recipes.append(name)
        return engine

    yield for_recipe
    for name in recipes:
        for container in engine.containers([f"reprokit.recipe={name}"]):
            engine.remove(container.id, force=True)
        for image in engine.images([f"reprokit.recipe={name}"]):
            engine.remove_image(image.id, force=True)
