"""`reprokit new`: a commented start, a recipe from a repository, and its repair."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.explain.judge import explain
from reprokit.host import disk, memory
from reprokit.importing.repair import Failure
from tests.support import logs


def test_the_start_and_its_commented_parts_pass_check_and_render(call, error, tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "free_bytes", lambda path: 1 << 50)  # this machine may have less than the recipe requires
    monkeypatch.setattr(memory, "memory_bytes", lambda: 1 << 50)
    assert call("new", "my-paper").exit_code == 0
    file = tmp_path / "recipes" / "my-paper.yaml"
    assert file.read_text().count("#") > 15
    assert call("check", "my-paper").exit_code == 0
    assert "FROM ${BASE} AS base" in call("render", "my-paper").stdout
    lines = file.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "# cuda:")
    lines[start:] = [line.replace("  # ", "  ", 1) if i < 7 else line for i, line in enumerate(lines[start:])]
    file.write_text("\n".join(lines) + "\n")
    assert call("check", "my-paper:cuda").exit_code == 0
    assert "nvcc" in call("render", "my-paper:cuda").stdout
    file.write_text("mine")
    error(UsageError, "new", "my-paper")
    assert file.read_text() == "mine"


def test_a_name_of_another_folder_is_not_hidden(error, tmp_path, monkeypatch):
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "theirs.yaml").write_text("name: theirs\n")
    monkeypatch.setenv("REPROKIT_RECIPES", str(folder))
    for name, path in (("theirs", folder / "theirs.yaml"), ("featgraph", paths.data_root() / "recipes/featgraph.yaml")):
        exists = error(UsageError, "new", name)
        assert (exists.message, exists.where) == (f"a recipe named {name} exists already", str(path))
        assert exists.hint == "choose another name; to change that one, copy it and its lock to recipes/"
    assert not (tmp_path / "recipes").exists()


def test_names_that_are_refused_write_nothing(call, error, tmp_path):
    for name in ("My", "a b", "../x", "", "a--b", "x" * 61, "a/b", "-x", "x:y"):
        error(UsageError, "new", "--", name)
    assert list(tmp_path.iterdir()) == []
    for first, second in (("my-paper", "my_paper"), ("their_paper", "their-paper")):
        call("new", first)
        assert "share one workspace folder" in error(UsageError, "new", second).message
    assert sorted(file.name for file in (tmp_path / "recipes").iterdir()) == ["my-paper.yaml", "their_paper.yaml"]


@pytest.fixture
def no_network(monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.mark.usefixtures("no_network")
def test_a_repository_becomes_a_recipe_that_checks_and_renders(call, tmp_path, repositories):
    setup = "from setuptools import setup, Extension\nsetup(name='tool', version='1.0', install_requires="
    setup += "['numpy==1.26.4','scipy>=1'], ext_modules=[Extension('tool.fast', ['fast.c'])])\n"
    dockerfile = "FROM debian\nRUN apt install -y git\n"
    files = {"setup.py": setup, "tool/__init__.py": "import numpy\n", "Dockerfile": dockerfile}
    first = repositories.make("team/tool", files)
    repositories.git("team/tool", "tag", "v1")
    repositories.commit("team/tool", {"setup.py": "raise SystemExit\n"})

    result = call("new", "tool", "--from", "https://forge.test/team/tool", "--commit", "v1", "--as-of", "2024-01-01")
    assert result.exit_code == 0, result.exception
    assert "question: which version of scipy>=1? (setup.py:2)" in result.stdout
    text = (tmp_path / "recipes/tool.yaml").read_text()
    assert first in text and "numpy==1.26.4 # numpy==1.26.4: setup.py:2" in text.replace("  #", " #")
    assert call("check", "tool").exit_code == 0
    dockerfile = call("render", "tool").stdout
    assert "/opt/tool" in dockerfile and "python3 -m pip wheel" in dockerfile
    # An arbitrary equality is a pin without a network.
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "requirements.txt").write_text("numpy===1.21.0\n")
    result = call("new", "other", "--from", "repository")
    assert result.exit_code == 0, result.exception
    assert "numpy==1.21.0" in (tmp_path / "recipes" / "other.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "git@github.com:a/b"], "'git@github.com:a/b' is an address for ssh"),
        (["--from", "missing"], "cannot read the folder: No such file or directory"),
        (["--from", "empty"], "none of its 0 files says what the code needs"),
        (["--from", "file:///etc"], "not an https:// address"),
        (["--from", ".", "--commit", "v1"], "--commit is for git addresses"),
        (["--from", ".", "--as-of", "yesterday"], "'yesterday' is not a date"),
        (["--from", ".", "--as-of", "commit"], "the date of the commit is not known"),
        (["--commit", "v1"], "--commit needs a repository"),
        (["--as-of", "2024-03-01"], "--as-of needs a repository"),
        (["--repair"], "--repair needs a repository"),
    ],
)
def test_a_source_that_is_none_is_named(error, tmp_path, options, message):
    (tmp_path / "empty").mkdir()
    assert message in error(UsageError, "new", "tool", *options).message
    assert not (tmp_path / "recipes").exists()


def test_missing_parsers_are_named_with_their_extra(error, tmp_path, monkeypatch):
    for module in ("recipe_of", "draft", "changes", "repair"):
        monkeypatch.delitem(sys.modules, f"reprokit.importing.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    missing = error(UsageError, "new", "tool", "--from", str(tmp_path))
    assert "ruamel.yaml" in missing.message and "[import]" in missing.hint


@pytest.fixture
def repaired(call, tmp_path, monkeypatch, no_network):
    """`repaired(answer, ...)` imports a folder with --repair; each attempt returns, calls or raises the next answer."""
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/setup.py").write_text("from setuptools import setup\nsetup(name='tool', version='1')\n")
    monkeypatch.setattr(Engine, "connect", lambda: None)

    def run(*answers):
        answer = iter(answers)

        def attempt(engine, name):
            current = next(answer)
            if isinstance(current, BaseException):
                raise current
            return current() if callable(current) else current

        monkeypatch.setattr("reprokit.smoke.repair.attempt", attempt)
        return call("new", "tool", "--from", str(tmp_path / "repository"), "--as-of", "2024-03-01", "--repair")

    return run


def failed(line: str) -> list[Failure]:
    return [Failure("build", line, tuple(explain(logs.stream(f"{line}\n"), failed=True).causes))]


CURL = "a.c:1:10: fatal error: curl/curl.h: No such file or directory"


def test_a_repair_changes_the_recipe_and_writes_its_page(repaired, tmp_path):
    result = repaired(failed(CURL), [])
    assert result.exit_code == 0, result.exception
    assert "round 1: apt: libcurl4-openssl-dev" in result.stderr
    text = " ".join((tmp_path / "recipes/tool.yaml").read_text().split())
    assert "- libcurl4-openssl-dev # repaired: the header curl/curl.h is not on the include path" in text
    page = (tmp_path / "recipes/tool.md").read_text()
    assert "smoke commands succeed" in page and "libcurl4-openssl-dev" in page


@pytest.mark.parametrize(
    ("second", "words"),
    [("Segmentation fault", "## Still fails"), (KeyboardInterrupt(), "The repair was interrupted")],
    ids=["fails", "interrupted"],
)
def test_a_repair_that_ends_early_keeps_what_it_learnt(repaired, tmp_path, second, words):
    result = repaired(failed(CURL), failed(second) if isinstance(second, str) else second)
    assert result.exit_code != 0
    assert "libcurl4-openssl-dev" in (tmp_path / "recipes/tool.yaml").read_text()
    page = (tmp_path / "recipes/tool.md").read_text()
    assert words in page and "libcurl4-openssl-dev" in page
    if words == "## Still fails":
        assert isinstance(result.exception, WorkFailed) and result.exception.where == "recipes/tool.md"
        assert "tool:cpu still fails: build: Segmentation fault" in result.exception.message
        assert "Segmentation fault" in page.partition(words)[2]


def test_a_disk_that_fills_up_during_a_repair_keeps_the_recipe(repaired, monkeypatch, disk):
    def full() -> list[Failure]:
        disk.fill()
        return failed(CURL)

    monkeypatch.chdir(disk.folder)
    error = repaired(full).exception
    assert isinstance(error, EngineError) and error.message == "the file cannot be written: No space left on device"
    assert error.where in ("recipes/tool.yaml", "recipes/tool.md") and error.hint == "free space there"
    assert "name: tool" in Path("recipes/tool.yaml").read_text()


def test_a_page_that_exists_is_not_overwritten(repaired, tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/tool.md").write_text("mine")
    result = repaired()
    assert isinstance(result.exception, UsageError) and result.exception.where == "recipes/tool.md"
    assert (tmp_path / "recipes/tool.md").read_text() == "mine" and not (tmp_path / "recipes/tool.yaml").exists()
