"""What the commands of a script set."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_only_an_export_sets_a_variable_of_the_environment(stated):
    readme = "```\n@article{x,\n  year={2020}\n}\n```\n```\nrate=1e-3\nexport MODE=fast\n```\n"
    assert [s.value for s in stated({"README.md": readme}) if s.subject == "env"] == ["MODE=fast"]


def test_the_value_of_an_option_of_pip_is_no_package(stated):
    command = "pip install --root-user-action ignore --use-feature fast-deps --exists-action w --report o einops==0.3"
    found = stated({"Dockerfile": f"FROM debian\nRUN {command}\n"})
    assert [s.value for s in found if s.subject == "package"] == ["einops==0.3"]


def test_a_python_of_poetry_may_have_a_patch_release(decided):
    poetry = '[tool.poetry.dependencies]\npython = "~3.9"\nidna = {version = "3.3", python = ">=3.9.1"}\n'
    assert "idna" in decided({"pyproject.toml": poetry}).requirements
    assert "idna" in decided({"pyproject.toml": poetry.replace(">=3.9.1", "3.9")}).requirements
    assert "idna" not in decided({"pyproject.toml": poetry.replace(">=3.9.1", "3.8")}).requirements


@pytest.mark.parametrize(
    ("command", "packages"),
    [
        ("pip --no-cache-dir install einops==0.3", ["einops==0.3"]),
        ("python3 -m pip --cache-dir /c -q install -U einops==0.3", ["einops==0.3"]),
        ("conda create -yn streaming numpy=1.20", ["numpy==1.20.*"]),
        ("conda install -yc conda-forge numpy=1.20", ["numpy==1.20.*"]),
        ("conda env config vars set MODE=fast", []),
        ("conda install --file needs.txt", ["scipy"]),
    ],
)
def test_options_of_an_install_are_not_its_packages(stated, command, packages):
    found = stated({"Dockerfile": f"FROM debian\nRUN {command}\n", "needs.txt": "scipy\n"})
    assert [s.value for s in found if s.subject in ("package", "conda")] == packages
    assert not [s for s in found if s.subject == "unread" and "Dockerfile" in s.origin.file and packages]


def test_the_readme_that_installs_its_own_project_by_conda_asks_nothing(decided):
    setup = "from setuptools import setup\nsetup(name='Tool-Kit', packages=['tool'])\n"
    readme = "```\nconda install -c us tool-kit tool\nconda install moose\n```\n"
    found = decided({"setup.py": setup, "tool/__init__.py": "", "README.md": readme})
    assert [q.text.partition(":")[0] for q in found.questions] == ["conda installs moose"]
