"""Requirements of several files for one project."""

from __future__ import annotations

import pytest

WORKFLOW = """\
on: push
jobs:
  oldest:
    runs-on: ubuntu-latest
    steps:
      - run: pip install numpy==1.17
"""


@pytest.mark.parametrize(
    ("declared", "found", "lost"),
    [
        ("numpy>=1.17\n", "numpy>=1.17", ["CI tries several versions, and requirements.txt:1 counts more"]),
        ("numpy\n", "numpy==1.17", []),
    ],
)
@pytest.mark.slow
def test_a_version_that_ci_tries_narrows_no_range(decided, declared, found, lost):
    files = {"requirements.txt": declared, ".github/workflows/ci.yml": WORKFLOW, "tool.py": "import numpy\n"}
    choice = decided(files).requirements["numpy"]
    assert choice.value == found and [one.why for one in choice.lost] == lost


@pytest.mark.slow
def test_a_version_that_ci_tries_narrows_not_even_a_readme(decided):
    files = {"README.md": "It needs NumPy 1.20+.\n", ".github/workflows/ci.yml": WORKFLOW, "tool.py": "import numpy\n"}
    choice = decided(files).requirements["numpy"]
    assert choice.value == "numpy>=1.20"
    assert [one.why for one in choice.lost] == ["CI tries several versions, and README.md:1 counts more"]


@pytest.mark.parametrize("build", ["numpy==1.19.3", "numpy>=2.0.0rc1,<2.3"])
def test_the_numpy_that_wheels_for_others_are_built_with_does_not_count(decided, build):
    pyproject = f"[build-system]\nrequires = ['{build}']\n[project]\nname = 'tool'\ndependencies = ['numpy>=1.22.4']\n"
    assert decided({"pyproject.toml": pyproject}).requirements["numpy"].value == "numpy>=1.22.4"


@pytest.mark.parametrize(
    ("requires", "day", "found"),
    [
        ("setuptools", "2018-12-10", "setuptools>=41.1"),
        ("setuptools>=30", "2025-12-10", "setuptools>=30,>=66.1"),
        ("setuptools==40.6.2", "2018-12-10", "setuptools==40.6.2"),
    ],
)
def test_setuptools_can_be_imported_by_the_python(decided, requires, day, found):
    pyproject = f"[build-system]\nrequires = ['{requires}']\n[project]\nname = 'tool'\n"
    assert decided({"pyproject.toml": pyproject}, day).requirements["setuptools"].value == found


def test_of_two_files_of_a_format_the_one_nearer_to_the_root_counts_more(decided):
    files = {"paper_code/requirements.txt": "torch==1.1.0\n", "requirements.txt": "torch==1.7.0\n"}
    choice = decided({**files, "a.py": "import torch\n"}).requirements["torch"]
    assert choice.value == "torch==1.7.0"
    assert [one.why for one in choice.lost] == ["contradicts requirements.txt:1, which counts more"]


def test_of_several_versions_that_ci_tries_none_is_taken(decided):
    more = f"{WORKFLOW}      - run: pip install numpy==1.21\n"
    choice = decided({".github/workflows/ci.yml": more, "tool.py": "import numpy\n"}).requirements["numpy"]
    assert choice.value == "numpy" and [str(origin) for origin in choice.origins] == [".github/workflows/ci.yml:6"]
    assert [(one.value, one.why) for one in choice.lost] == [
        ("numpy==1.17", "CI tries several versions"),
        ("numpy==1.21", "CI tries several versions"),
    ]
