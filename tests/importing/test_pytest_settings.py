"""The plugins without which pytest does not start."""

from __future__ import annotations

import pytest

SETUP = "from setuptools import setup\nsetup(name='tool', install_requires=['numpy'])\n"
TABLE = "[tool.pytest.ini_options]\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = --cov --cov-report a -n 2 # '\nrequired_plugins =\n  pytest-mpi>=0.2\n"),
        ("tox.ini", "[tox]\n[pytest]\naddopts = --cov 'x -n 2\nrequired_plugins = pytest-mpi>=0.2\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --cov=tool --dist=load\nrequired_plugins = pytest-mpi>=0.2\n"),
        ("pyproject.toml", f"{TABLE}addopts = ['--cov', '-n2']\nrequired_plugins = 'pytest-mpi>=0.2'\n"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_plugins_that_settings_need_are_installed_beside_tests(decided, path, text):
    found = decided({"setup.py": SETUP, path: text, "test_a.py": "def test(): pass\n"})
    plugins = {name: str(choice.origins[0]) for name, choice in found.requirements.items() if "-" in name}
    lines = text.splitlines()
    mpi = 1 + next(n for n, line in enumerate(lines) if "mpi" in line)
    added = 1 + next(n for n, line in enumerate(lines) if "--cov" in line)
    at = {"pytest-mpi": mpi, "pytest-cov": added, "pytest-xdist": added}
    assert plugins == {name: f"{path}:{line}" for name, line in at.items()} and plugins.keys() <= found.optional
    assert found.requirements["pytest-mpi"].value == "pytest-mpi>=0.2"


@pytest.mark.slow
def test_plugins_are_not_installed_without_tests(decided):
    assert "pytest-cov" not in decided({"setup.py": SETUP, "pytest.ini": "[pytest]\naddopts = --cov\n"}).requirements


def test_a_module_that_is_only_named_like_a_test_is_none(decided):
    files = {"setup.py": SETUP, "tool/test_time.py": "class TestTimePool(Module):\n    def forward(self): pass\n"}
    found = decided(files)
    assert not found.tests and "pytest" not in found.requirements
    assert decided(files | {"tool/a_test.py": "async def test_a(): pass\n"}).tests
    assert decided(files | {"tool/a_test.py": "class A:\n\n    def test_a(self): pass\n"}).tests
