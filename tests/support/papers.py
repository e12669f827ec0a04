"""A stranger's recipe whose image is in the engine, and reprokit as an ordinary user of this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.host.workspace import locate
from reprokit.recipe.find import Target, target
from tests.support.images import built
from tests.support.names import unique
from tests.support.users import as_user, engines_groups, give


class Paper:
    """`place` is where the user stands, with the recipe; REPROKIT_HOME is below it. Other users may pass."""

    def __init__(self, engine: Engine, name: str, place: Path) -> None:
        self.engine, self.name, self.place = engine, name, place

    @property
    def image(self) -> str:
        return f"reprokit/{self.name}:cpu"

    @property
    def workspace(self) -> Path:
        return locate(self.name, self.place / "recipes" / f"{self.name}.yaml")

    def recipe(self, more: str = "", top: str = "") -> Target:
        """The recipe with more lines of its variant, and of its own."""
        folder = self.place / "recipes"
        folder.mkdir(exist_ok=True)
        text = f"name: {self.name}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n{top}"
        text += f'variants:\n  cpu:\n    base: "debian:12"\n{more}'
        (folder / f"{self.name}.yaml").write_text(text)
        return target(self.name)

    def as_user(self, work: Callable[[Engine], Any]) -> Any:
        """What `work` returns as an ordinary user, who owns all below `place`. Its ReprokitErrors are raised here."""
        if os.geteuid() == 0:
            give(self.place)
        return as_user(lambda: work(Engine.connect()), groups=engines_groups())

    def clear(self) -> None:
        """Remove the containers and all files in `place`: after `as_user` they belong to another user."""
        for container in self.engine.containers([f"reprokit.recipe={self.name}"]):
            self.engine.remove(container.id, force=True)
        subprocess.run(["rm", "-rf", *self.place.iterdir()], check=True)

    def by_hand(self, **config: Any) -> str:
        """A container of the image as its caller says; it is removed with the rest."""
        name = unique("by-hand")
        labels = {**config.pop("Labels", {}), "reprokit.recipe": self.name}
        self.engine.create_container(name, {"Image": self.image, "Labels": labels, **config})
        return name


@contextlib.contextmanager
def paper(engine: Engine, dockerfile: str, files: Mapping[str, bytes] | None = None) -> Iterator[Paper]:
    """Built from `dockerfile` with `files` beside it. All that is made of it is gone afterwards."""
    name = unique("paper")
    labels = {"reprokit.recipe": name, "reprokit.variant": "cpu"}
    built(engine, dockerfile, files, tag=f"reprokit/{name}:cpu", labels=labels)
    with tempfile.TemporaryDirectory(prefix="reprokit-test-") as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder).chmod(0o755)
        patch.setenv("REPROKIT_HOME", f"{folder}/home")
        patch.delenv("REPROKIT_RECIPES", raising=False)
        patch.chdir(folder)
        made = Paper(engine, name, Path(folder))
        try:
            yield made
        finally:
            made.clear()
            for image in engine.images([f"reprokit.recipe={name}"]):
                with contextlib.suppress(ReprokitError):
                    engine.remove_image(image.id, force=True)
