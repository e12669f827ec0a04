"""Remedies for a recipe: what to change in which line, and no command for a machine made by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.load import bundled
from reprokit.explain.model import Cause, filled
from reprokit.explain.remedy import OF_HOST, Subject, remedy
from reprokit.recipe.find import target
from tests.support import logs

RECIPE = """\
name: mk
paper: {title: A, venue: V, year: 2020, licence: none}
variants:
  plain:
    base: debian:12
    pins:
      gcc: "12"
      cmake: "4.0"
    sources:
      - {name: mk, git: "https://forge.example/mk", commit: "0123456789012345678901234567890123456789", path: /src}
    wheels:
      - numpy==2.0.1
    blocks:
      - git
      - wheels
      - run:
          source: mk
          packages: [make]
          commands: [./configure]
          products: [out]
  cpu:
    extends: plain
"""
HAND_MADE = re.compile(r"apt-get install|pip3? install|Dockerfile|\bCOPY\b|docker run|/variants/")


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`failed(block)`: the recipe, in the current folder, and the block that failed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/mk.yaml").write_text(RECIPE)
    return lambda block="": Subject(target("mk:cpu"), block)


@pytest.mark.parametrize(
    ("log", "block", "expected"),
    [
        ("/usr/bin/ld: cannot find -lopenblas", "run",
         "add libopenblas-dev to `packages` of the block run, recipes/mk.yaml:18"),
        ("/usr/bin/ld: cannot find -lopenblas", "wheels",
         "add libopenblas-dev to `apt`, recipes/mk.yaml:4, and the block `apt` to `blocks`, recipes/mk.yaml:13"),
        ("ModuleNotFoundError: No module named 'h5py'", "", "add h5py to `wheels`, recipes/mk.yaml:11"),
        ("AttributeError: module 'numpy' has no attribute 'bool'.", "",
         "replace `numpy==2.0.1` by numpy==1.23.5 in `wheels`, recipes/mk.yaml:12"),
        ("Compatibility with CMake < 3.5 has been removed from CMake.", "run",
         'set the pin `cmake` to "3.31", recipes/mk.yaml:8'),
        ("E: gnupg, gnupg2 and gnupg1 do not seem to be installed, but one of them is required", "run",
         "add gnupg to `packages` of the block run, recipes/mk.yaml:18"),
        ("/bin/bash: line 1: ./configure: No such file or directory", "run",
         "check `source:` and `folder:` of the block run, recipes/mk.yaml:16; "
         "set `submodules: true` of the source mk, recipes/mk.yaml:10"),
    ],
)  # fmt: skip
def test_a_remedy_names_the_line_and_then_lock_and_build(failed, log: str, block: str, expected: str) -> None:
    cause = explain(logs.stream(log), failed=True).causes[0]
    steps = remedy(cause, failed(block))
    assert steps[0] == f"{expected}; then `reprokit lock mk:cpu` and `reprokit build mk:cpu`"
    assert not HAND_MADE.search("\n".join(steps))
    # A stranger's log keeps the commands.
    assert remedy(cause) == cause.remedy.splitlines()


def test_what_changes_no_image_needs_no_build_and_what_the_machine_lacks_comes_first(failed) -> None:
    change = {"op": "add", "path": "/variants/*/shm", "value": "8GiB"}
    cause = Cause("x", "exact", 1, "", "", "docker run --shm-size=8g, or num_workers=0", [change], [])
    assert remedy(cause, failed()) == ["set `shm` to 8GiB, recipes/mk.yaml:4", "otherwise: num_workers=0"]
    command = "MAX_JOBS=3 reprokit build ..."
    change = {"op": "add", "path": "/variants/*/build_args/MAX_JOBS", "value": "3"}
    steps = remedy(Cause("x", "exact", 1, "", "", command, [change], []), Subject(target("mk:cpu"), ""))
    assert steps == [command, "in the recipe: set `build_args.MAX_JOBS` to 3, recipes/mk.yaml:4"]


def test_no_bundled_remedy_for_a_recipe_is_one_for_a_hand_made_machine(failed) -> None:
    subject, checked = failed("run"), 0
    for rule in bundled()[0]:
        text = filled(rule.remedy, {})
        changes = [{"op": c.op, "path": c.path, "value": c.value} for c in rule.change if "{" not in str(c.value)]
        steps = remedy(Cause(rule.id, "exact", 1, "", "", text, changes, []), subject)
        assert steps and all(steps), rule.id
        if not OF_HOST.search(text):
            checked += bool(HAND_MADE.search(text))
            assert not HAND_MADE.search("\n".join(steps)), rule.id
    assert checked > 150
