"""A folder with a recipe of two variants, one with something of each kind and a small one, as a user works in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.forge import Forge
from tests.support.names import unique
from tests.support.other_engine import OtherEngine
from tests.support.verbs import run_verb

RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: debian:12
    pins: {{distro: "debian:12", python: "3.11"}}
    blocks: [apt, python, wheels, git, files]
    apt: [tree]
    wheels: ["six==1.16.0"]
    sources:
      - {{name: top, git: "https://forge.test/team/top", commit: {commit}, path: /opt/top, submodules: true}}
    files:
      - {{name: notes.txt, urls: ["http://127.0.0.2:{port}/notes.txt"], path: /opt/notes.txt}}
  small:
    base: debian:12
    pins: {{distro: "debian:12"}}
    blocks: [apt, files]
    apt: [tree]
    files:
      - {{name: notes.txt, urls: ["http://127.0.0.2:{port}/notes.txt"], path: /opt/notes.txt}}
"""


class Desk:
    """A folder with a recipe, a home of its own, and what the recipe takes in."""

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        self.forge = Forge(root / "forge")
        self.recipe = unique("locked")
        self.image = f"reprokit/{self.recipe}:v"
        self.small, self.small_image = f"{self.recipe}:small", f"reprokit/{self.recipe}:small"
        (root / "recipes").mkdir(parents=True)
        self.file = root / "recipes" / f"{self.recipe}.yaml"
        self.file.write_text(self.recipe_text(port))
        self.lock = self.file.with_suffix(".lock.yaml")
        self.environment = {**os.environ, **self.forge.settings, "REPROKIT_HOME": str(root / "home")}

    def recipe_text(self, port: int) -> str:
        self.forge.commit("lib/leaf", "leaf.txt")
        commit = self.forge.commit("team/top", "top.txt", submodule="lib/leaf")
        for name in ("lib/leaf", "team/top"):  # from here on neither commit is the head of a branch
            self.forge.commit(name, "new.txt")
        return RECIPE.format(name=self.recipe, commit=commit, port=port)

    def run(
        self, *words: str, code: int = 0, inside: OtherEngine | None = None, before: Sequence[str] = (), **more: str
    ) -> str:
        """`reprokit WORDS`, started by the command `before`; its output and errors."""
        command = [*before, sys.executable, "-m", "reprokit", *words]
        options = {"cwd": self.root, "env": {**self.environment, **more}}
        if inside:
            options["env"]["DOCKER_HOST"] = inside.address
            done = inside.inside(command, **options)
        elif before:
            done = subprocess.run(command, capture_output=True, text=True, **options)
        else:
            done = run_verb(*words, **options)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
