"""Recipes, Dockerfiles and root file systems for tests of builds."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from reprokit.display import reporting
from reprokit.engine import Engine
from reprokit.image import build as build_module
from reprokit.image.build import BuildResult, build
from reprokit.image.events import Event
from reprokit.image.render import Rendered
from reprokit.image.run import BuildOptions
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from tests.support.names import unique

RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2020, licence: MIT}}
variants:
  v:
    base: {base}
    pins: {{python: "3.11"}}
    requires: {{compute_capability: ["8.0"], driver: "450.80.02"}}
"""


TOOLS = ("sh", "sleep", "cat", "ls", "env", "head", "rm", "true")


def rendered(text: str) -> Rendered:
    """A Dockerfile whose lines `# block NAME` begin a block."""
    spans: list[tuple[int, int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"# block (\w+)", line):
            spans.append((number, number, match[1]))
        elif spans:
            spans[-1] = (spans[-1][0], number, spans[-1][2])
        else:
            spans.append((number, number, "base"))
    return Rendered(text, tuple(spans))


def target_of(name: str, base: str = "debian:12") -> Target:
    return Target(load_text(RECIPE.format(name=name, base=base), f"{name}.yaml", name), "v", Path(f"{name}.yaml"))


@cache
def _libraries(program: Path) -> list[str]:
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+)", linked)


def root_file_system(tools: Iterable[str] = TOOLS) -> bytes:
    """A tar with a shell and a few tools of this machine, and the libraries that they load: 4 MB in place of 160."""
    files: dict[str, Path] = {}
    for tool in tools:
        path = Path(shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "")
        files[f"bin/{tool}"] = path.resolve()
        for library in _libraries(path):
            files[library.lstrip("/")] = Path(library).resolve()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder, mode in (("tmp", 0o777), ("etc", 0o755)):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, mode
            tar.addfile(member)
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = path.stat().st_size, 0o755
            with path.open("rb") as file:
                tar.addfile(member, file)
    return out.getvalue()


class Builds:
    """Builds Dockerfiles as variants of a recipe that has this test's own name."""

    def __init__(self, engine: Engine, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine, self.monkeypatch = engine, monkeypatch
        self.target = target_of(unique("build"), base)
        self.events: list[Event] = []
        self.notes: list[str] = []

    def __call__(self, dockerfile: str, engine: Engine | None = None, **options: object) -> BuildResult:
        """`dockerfile` without its first lines, which put in the base and keep layers of other tests away."""
        text = f"ARG BASE\nFROM ${{BASE}}\nENV TEST={self.target.recipe.name}\n" + dockerfile
        self.monkeypatch.setattr(build_module, "render", lambda target: rendered(text))
        self.events.clear()
        self.notes.clear()
        with reporting(self.notes.append):
            return build(engine or self.engine, self.target, BuildOptions(**options), self.events.append)

    def seen(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]
