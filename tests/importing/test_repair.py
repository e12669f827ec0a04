"""The repair loop over recorded failures: what it may change, how it writes that, and its page."""

from __future__ import annotations

from datetime import date

import pytest
from packaging.requirements import Requirement

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.stack import stack_of, stated_wheels
from reprokit.errors import UsageError
from reprokit.importing.changes import RecipeChange, changed, permitted
from reprokit.importing.decision import Choice, Decision, ImportedRecipe, PythonBase, Question, Versions
from reprokit.importing.model import Origin
from reprokit.importing.repair import ROUNDS, Failure, Fit, Round, page
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant
from tests.support.repairs import CURL, H5PY, VARIANT, World, failure

JOBS = "reprokit: out of memory during the build: the kernel killed cc1plus; MAX_JOBS=4 fits"
PYTHON_39 = "python 3.9: it needs another base, so import the repository again or edit the recipe"
NO_TORCH = "ModuleNotFoundError: No module named 'torch'"
NO_PROGRAM = 'CMake Error: CMake was unable to find a build program corresponding to "Unix Makefiles".'


def test_each_round_changes_what_its_failure_names_with_the_cause_as_a_comment():
    world = World([failure(CURL)], [failure(H5PY, "import")], [])
    first, second = world.run()
    assert first.changes[0] == "apt: libcurl4-openssl-dev"
    assert second.changes == ("wheels: h5py==1.0",) and world.kept == 2
    assert world.variant.apt == ["libcurl4-openssl-dev"] and "h5py==1.0" in world.variant.wheels
    assert [block.name for block in world.variant.blocks] == ["apt", "python", "wheels"]
    assert "# a comment" in world.written[-1] and "# setup.py:3" in world.written[-1]
    assert "# repaired: the header curl/curl.h is not on the include path" in world.written[-1]


@pytest.mark.parametrize(
    ("answers", "changes", "refused"),
    [
        ([[]], [], []),
        ([[(NO_PROGRAM,)], []], [("apt: make", "apt: ninja-build")], [()]),
        # A failure without a known change ends the loop.
        ([[("Segmentation fault",)]], [()], [()]),
        # A build that reports the same missing package for ever
        (
            [[(CURL,)]],
            [("apt: libcurl4-openssl-dev",), ()],
            [(), ("add libcurl4-openssl-dev: the recipe has it already",)],
        ),
        # The next failure is tried where the first has no change.
        (
            [[(NO_TORCH, "import"), (CURL,)], []],
            [("apt: libcurl4-openssl-dev",)],
            [("torch: no versions fit",)],
        ),
        # A state that failed before is not tried again.
        (
            [[(JOBS,)]] * 3,
            [("build_args/MAX_JOBS: 4",), ("build_args/MAX_JOBS: 2",), ("build_args/MAX_JOBS: 1",), ()],
            [(), (), (), ("MAX_JOBS: one compiler alone is too much",)],
        ),
    ],
)
def test_what_the_rounds_change_and_refuse(answers, changes, refused):
    world = World(*([failure(*each) for each in answer] for answer in answers))
    rounds = world.run()
    assert [each.changes for each in rounds] == changes and [each.refused for each in rounds] == refused
    assert any(changes) or world.written == []


def test_the_rounds_are_bounded_for_failures_without_end():
    headers = ("zlib.h", "png.h", "gmp.h", "yaml.h", "numa.h", "mpfr.h", "mpc.h", "expat.h", "uuid/uuid.h", "hdf5.h")
    world = World(*([failure(f"a.c:1:10: fatal error: {h}: No such file or directory")] for h in headers))
    rounds = world.run()
    assert len(rounds) == ROUNDS and not rounds[-1].changes and len(world.variant.apt) == ROUNDS - 1


def test_what_was_learnt_is_kept_where_a_later_round_is_interrupted():
    world = World([failure(CURL)], [])
    calls = iter([world.answers[0]])

    def interrupted() -> list[Failure]:
        if (answer := next(calls, None)) is None:
            raise KeyboardInterrupt
        return answer

    world.attempt = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert world.kept == 1 and world.variant.apt == ["libcurl4-openssl-dev"]


@pytest.mark.parametrize(
    ("op", "path", "value", "expected"),
    [
        ("add", "apt/-", "libgl1", "apt: libgl1"),
        ("add", "wheels/-", "pyyaml", "wheels: pyyaml"),
        ("add", "wheels/-", "protobuf<3.21", "wheels: protobuf<3.21"),
        ("add", "pins/gcc", "11", "pins/gcc: 11"),
        ("add", "pins/numpy", "1.23.5", "wheels: numpy==1.23.5"),
        ("add", "pins/cmake", "3.31", "wheels: cmake==3.31.*"),
        ("add", "pins/tokenizers", "0.13.3", "wheels: tokenizers==0.13.3"),
        ("add", "pins/torchaudio", "2.1.0+cu118", "wheels: torchaudio==2.1.0+cu118"),
        ("add", "pins/xformers", "0.0.22.post1", "wheels: xformers==0.0.22.post1"),
        ("add", "sources/0/submodules", True, "sources/0/submodules: True"),
        ("add", "build_args/MAX_JOBS", "3", "build_args/MAX_JOBS: 3"),
        # What changes nothing or needs a person is refused.
        ("replace", "apt/-", "git", "add git: the recipe has it already"),
        ("replace", "wheels/-", "numpy", "add numpy: the recipe has 1.26.4 already"),
        ("replace", "pins/llvm", "10", "add llvm 10: it needs a block, which is yours to add"),
        ("replace", "pins/python", "3.9", PYTHON_39),
        ("replace", "pins/gcc", "12", "gcc 12: the recipe has it already"),
        ("replace", "pins/python", None, "replace /variants/*/pins/python: the choice is yours"),
    ],
)
def test_what_a_repair_may_change(op, path, value, expected):
    change = permitted({"op": op, "path": f"/variants/*/{path}", "value": value}, VARIANT)
    assert isinstance(change, RecipeChange) == (op == "add") and str(change) == expected


def test_the_project_itself_is_not_added():
    """As where its tests do not find its compiled modules."""
    blocks = [{"extension_package": {"source": "t", "package": "My-Tool"}}, {"imports": {"modules": ["tool_core"]}}]
    variant = Variant.model_validate({**VARIANT.model_dump(exclude={"blocks"}), "blocks": blocks})
    for name in ("my_tool", "tool-core"):
        change = {"op": "add", "path": "/variants/*/wheels/-", "value": name}
        assert permitted(change, variant) == f"add {name}: it is the project itself"
        assert isinstance(permitted(change, VARIANT), RecipeChange)


RECIPE = """\
name: tool  # a comment
paper: {title: T, venue: V, year: 2020, licence: none}
variants:
  cpu:
    # why this base
    base: ubuntu:20.04
    pins:
      distro: "ubuntu:20.04"
      python: "3.8"
      cuda: "10.2" # Dockerfile:1
      gcc: "9"
    apt:
      - git  # Dockerfile:3
    blocks: [apt, python]
"""


def test_edits_keep_the_comments():
    changes = [
        {"op": "add", "path": "/variants/*/apt/-", "value": "libgl1"},
        {"op": "add", "path": "/variants/*/apt/-", "value": "libgl1"},
        {"op": "replace", "path": "/variants/*/pins/python", "value": "3.9"},
        {"op": "add", "path": "/variants/*/wheels/-", "value": "numpy==1.26.4"},
        {"op": "add", "path": "/variants/*/env/MAX_JOBS", "value": "1"},
        *({"op": "remove", "path": f"/variants/*/pins/{name}"} for name in ("distro", "cuda", "gcc")),
    ]
    text = changed(RECIPE, "cpu", changes)
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert variant.apt == ["git", "libgl1"] and variant.pins == {"python": "3.9"}
    assert variant.wheels == ["numpy==1.26.4"] and variant.env == {"MAX_JOBS": "1"}
    assert [comment for comment in ("# a comment", "# why this base", "# Dockerfile:3") if comment not in text] == []
    with pytest.raises(UsageError, match="variants/gpu/pins/cuda"):
        changed(RECIPE, "gpu", [{"op": "replace", "path": "/variants/*/pins/cuda", "value": "11.8"}])
    # A new key leaves the comment of the next one in its place.
    text = "variants:\n  v:\n    base: debian:12\n    requires:\n      gpu: none\n# The files run: make\nsmoke: []\n"
    text = changed(text, "v", [{"op": "add", "path": "/variants/*/apt/-", "value": "libfoo"}], "why")
    assert text.endswith("    requires:\n      gpu: none\n# The files run: make\nsmoke: []\n")
    assert "    apt:\n      - libfoo  # why\n" in text


def _errors(text: str) -> list[str]:
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    stack = stack_of(variant, resolved=stated_wheels(map(str, variant.wheels)))
    return [finding.reason for finding in evaluate(bundled(), stack) if finding.severity == "error"]


def test_pins_that_do_not_pass_check_are_solved_with_a_line_for_each_change():
    fit = Fit(bundled(), lambda variant, requirement: [])
    passing = RECIPE.replace("10.2", "11.4")
    assert fit.fitted(passing, "tool", "cpu", ()) == (passing, [])
    assert _errors(RECIPE)
    text, (line,) = fit.fitted(RECIPE, "tool", "cpu", ())
    assert not _errors(text) and " -> " in line and "nvcc of CUDA" in line and "# Dockerfile:1" in text
    # A pin that was just set stays.
    text, (line,) = fit.fitted(RECIPE, "tool", "cpu", ("/variants/*/pins/cuda",))
    assert line.startswith("gcc: 9 -> ") and not _errors(text)


def test_wheels_that_clash_change_as_pins_do():
    text = RECIPE.replace("10.2", "11.4").replace("3.8", "3.10") + "    wheels: [matplotlib==3.7.1, numpy==2.0.2]\n"
    requested = []

    def versions(variant: Variant, requirement: Requirement) -> list[RecipeChange]:
        requested.append(str(requirement))
        return [RecipeChange("replace", "/variants/*/wheels/1", "numpy==1.24.4")]

    assert [line.partition(" (")[0] for line in _errors(text)] == ["matplotlib before 3.8.4 was compiled with NumPy 1"]
    fitted, lines = Fit(bundled(), versions).fitted(text, "tool", "cpu")
    assert requested == ["numpy==1.26.*"] and len(lines) == 1 and not _errors(fitted)


BASE = Choice("debian:12 with Python 3.11", (Origin("setup.py", 3),), "debian:12 was stable")
QUESTION = Question("which distribution has evil?", Origin("train.py", 3))
DECISION = Decision("tool", date(2024, 1, 1), PythonBase("debian:12", "3.11"), BASE, questions=(QUESTION,))
IMPORTED = ImportedRecipe("", DECISION, Versions({}))


def test_the_page_names_what_was_found_changed_and_what_still_fails():
    curl = failure(CURL)
    rounds = [
        Round((curl,), curl.causes[0], ("apt: libcurl4-openssl-dev",)),
        Round((failure(H5PY, "import"),), refused=("h5py: no",)),
    ]
    text = page("tool", "https://forge.test/a/tool", IMPORTED, rounds, "It still fails: import")
    assert "debian\\:12 was stable (setup.py\\:3)" in text and "which distribution has evil? (train.py\\:3)" in text
    assert "1. build failed: the header curl/curl.h is not on the include path" in text
    assert "   - apt\\: libcurl4-openssl-dev" in text
    fails = text.partition("## Still fails")[2]
    assert "import\\: ModuleNotFoundError" in fails and "not changed\\: h5py\\: no" in fails
    works = page("tool", "x", IMPORTED, [], "It works", works=True)
    assert works.endswith("## Still fails\n\nNothing.\n")
    interrupted = page("tool", "x", IMPORTED, [], "The repair was interrupted")
    assert interrupted.endswith("## Still fails\n\nNot known: the last attempt did not end.\n")


def test_text_of_a_log_is_no_markup_of_the_page():
    evil = failure("a.c:1:10: fatal error: <img/src=x>[a](https://evil.example)`x`: No such file or directory")
    text = page("tool", "x", IMPORTED, [Round((evil,), evil.causes[0], ("apt: x",))], "It works")
    assert "<img" not in text and "[a]" not in text and "&lt;img" in text and "\\[a\\](" in text
