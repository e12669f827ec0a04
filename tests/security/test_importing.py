"""Repositories that attack the machine that reads them, and logs that attack the recipe which a repair changes.

Nothing of them runs, and no file outside is read.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from reprokit.compat.facts import bundled
from reprokit.config import Configuration
from reprokit.errors import UsageError
from reprokit.explain.judge import explain
from reprokit.importing.changes import changed, permitted
from reprokit.importing.collect import collect
from reprokit.importing.recipe_of import recipe_of
from reprokit.importing.tree import CommitTree, FolderTree, moment_of
from reprokit.recipe.load import load_text
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors import Mirrors
from tests.support import logs
from tests.support.fetching import HOSTS
from tests.support.json_index import Index
from tests.support.repairs import RECIPE, VARIANT, World, failure
from tests.support.stores import fetch
from tests.support.upstream import Upstream

# Each file leaves a mark where it is run by Python, a shell, make, or git.
PAYLOAD = """\
import os
os.system("touch {mark}")
from setuptools import setup
setup(name="evil", install_requires=["numpy", __import__("os").popen("touch {mark}").read()])
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def hostile(tmp_path: Path, mark: Path) -> Path:
    root = tmp_path / "hostile"
    modules = ("setup", "conftest", "tests/conftest", "evil/__init__", "sitecustomize", "tree_sitter")
    for path in (f"{module}.py" for module in modules):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(PAYLOAD.format(mark=mark))
    (root / "setup.sh").write_text(f"touch {mark}; pip install $(touch {mark}) numpy\n")
    (root / "Makefile").write_text(f"X := $(shell touch {mark})\nall:\n\tpip install `touch {mark}`\n")
    (root / "Dockerfile").write_text(f"FROM debian:12\nRUN touch {mark}\n")
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    return root


def made(tree, store, name="evil"):
    mirrors = Mirrors(store, pip=PipSettings())
    return recipe_of(name, tree, moment_of("2024-01-01", None, ""), mirrors, bundled())


@pytest.mark.slow
def test_nothing_of_a_repository_and_its_git_settings_is_run(hostile: Path, mark: Path, store, monkeypatch):
    monkeypatch.chdir(hostile)
    assert "numpy" in made(FolderTree(hostile), store).decision.requirements and not mark.exists()
    subprocess.run(["sh", "setup.sh"], cwd=hostile, capture_output=True)  # the control
    assert mark.exists()

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(hostile), *arguments], check=True, capture_output=True)

    git("init", "-q")
    git("add", "-A")
    git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "x")
    program = f"sh -c 'touch {mark}; cat'"
    for key in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "diff.evil.textconv", "gpg.program"):
        git("config", key, program)
    git("config", "log.showSignature", "true")
    git("config", "include.path", str(hostile / "more"))
    mark.unlink(missing_ok=True)
    tree = FolderTree(hostile)
    assert tree.commit and tree.date and made(tree, store) and not mark.exists()
    subprocess.run(["git", "-C", str(hostile), "status"], capture_output=True)  # the control
    assert mark.exists()


@pytest.mark.slow
def test_filters_and_links_of_a_commit_are_not_followed(repositories, store, mark: Path):
    files = {".gitattributes": "* filter=evil export-subst\n", "setup.py": "from setuptools import setup\nsetup()\n"}
    repositories.make("team/evil", files)
    (repositories.root / "team/evil.git/requirements.txt").symlink_to("/etc/passwd")
    head = repositories.commit("team/evil", {"a": "1"})
    commit = fetch(store, "team/evil", head)
    tree = CommitTree(folder_of(commit, store), commit.url, head)
    assert tree.contents.passed_over == {"requirements.txt": "a link"}
    unread = [s for s in collect(tree) if s.subject == "unread"]
    assert [str(s.origin) for s in unread] == ["requirements.txt:1"] and "root" not in str(collect(tree))


def test_links_and_pipes_are_passed_over(tmp_path: Path):
    root, outside = tmp_path / "repository", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "requirements.txt").write_text("secret-package==1\n")
    (root / "requirements.txt").symlink_to(outside / "requirements.txt")
    (root / "more").symlink_to(outside)
    os.mkfifo(root / "pyproject.toml")
    (root / "requirements").mkdir()
    (root / "requirements/base.txt").write_text(
        "-r ../../outside/requirements.txt\n-r /etc/hostname\n-c ../more/requirements.txt\n"
    )
    found = collect(FolderTree(root))
    assert "secret-package" not in str(found)
    unread = {(s.origin.file, s.value.rpartition(", ")[2]) for s in found if s.subject == "unread"}
    assert unread == {
        *{("requirements.txt", "which is not read"), ("pyproject.toml", "which is not read")},
        ("requirements/base.txt", "which is no file of the repository"),
    }
    (root / "requirements.txt").unlink()
    (root / "requirements.txt").write_text("secret-package==1\n")  # the control
    assert "secret-package" in str(collect(FolderTree(root)))


@pytest.mark.slow
def test_what_is_too_large_or_too_deep_is_named_and_costs_no_time(tmp_path: Path, monkeypatch):
    files = {
        "environment.yml": "dependencies: " + "[" * 5000,
        "bomb/environment.yml": "a: &a [x]\nb: [*a, *a]\ndependencies: *a\n",
        ".github/workflows/t.yml": "jobs: " + "{a: " * 2000,
        "setup.py": "x = " + "-" * 100_000 + "1\n",
        "pyproject.toml": "a = " + "[" * 50_000,
        "deep.py": "x = " + "(" * 100_000 + "\nimport numpy\n",
        "setup.sh": "if true; then\n" * 20_000,
        "CMakeLists.txt": "set(" * 50_000,
        "README.md": "> " * 20_000 + "x",
        ".devcontainer/devcontainer.json": "[" * 20_000,
        "nested.ipynb": '{"cells": ' + "[" * 200_000,
        "Pipfile.lock": "[" * 100_000,
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for path in ("huge.ipynb", "requirements.txt"):
        (tmp_path / path).touch()
        os.truncate(tmp_path / path, 1 << 30)  # takes no space
    (tmp_path / "plain.py").write_text("import scipy\n")
    statements = collect(FolderTree(tmp_path))
    unread = {s.origin.file for s in statements if s.subject == "unread"}
    assert unread >= {"environment.yml", "bomb/environment.yml", "setup.py", "huge.ipynb", "requirements.txt"}
    assert "nested.ipynb" in unread
    assert [s.value for s in statements if s.subject == "import" and s.origin.file == "plain.py"] == ["scipy"]
    monkeypatch.setenv("REPROKIT_LIMIT_SOURCE_ENTRIES", "10")
    with pytest.raises(UsageError, match="more than 10 entries"):
        FolderTree(tmp_path)


@pytest.mark.long
def test_damaged_code_costs_linear_time(tmp_path: Path):
    """tree-sitter's own queries would take quadratic time, here longer than a test may."""
    (tmp_path / "deep.py").write_text("x = " + "(" * 1_000_000 + "\nimport numpy\n")
    assert collect(FolderTree(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("internal @ http://10.0.0.1/internal-1.0-py3-none-any.whl", False),
        ("internal @ https://wheels.example/internal-1.0.tar.gz", False),
        ("http://10.0.0.1/internal-1.0-py3-none-any.whl", False),
        ("internal @ https://wheels.example/internal", False),
        ("internal @ file:///srv/internal", False),
        ("internal==1.0", True),  # the control
    ],
)
def test_a_name_with_an_address_is_not_taken_from_an_index(
    tmp_path: Path, store, upstream: Upstream, line: str, taken: bool
):
    """Anybody can register the name of an organisation's own package."""
    Index(upstream, tmp_path / "wheels").wheel("internal", "1.0", "2021-01-01")
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "requirements.txt").write_text(line + "\n")
    pip = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
    mirrors = Mirrors(store, Configuration(hosts=HOSTS), pip=pip)
    tree, moment = FolderTree(tmp_path / "repository"), moment_of("2024-01-01", None, "")
    found = recipe_of("tool", tree, moment, mirrors, bundled())
    assert ("internal" in found.versions.pins) is taken
    assert any("installed from" in question.text for question in found.decision.questions) is not taken


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["evil\nvariants: {}", "a\x1b[31m: b", '"; touch /tmp/x; "', "{{ config }}", "]]>*&!", "\u202e\u2028b", "# x"],
)
def test_no_text_of_a_stranger_leaves_its_place_in_the_recipe(tmp_path: Path, store, text: str):
    root = tmp_path / "repository"
    root.mkdir()
    (root / "CITATION.cff").write_text("title: " + json.dumps(text) + "\n")
    (root / "LICENSE").write_text(text)
    (root / "pyproject.toml").write_text(f"[project]\nname = {json.dumps(text)}\nversion = {json.dumps(text)}\n")
    (root / "Dockerfile").write_text(
        f"FROM debian:12\nENV A={text.replace(chr(10), ' ')}\nRUN apt-get install -y '{text}'\n"
    )
    (root / "requirements.txt").write_text(f"{text}\nnumpy==1.26.4\nsecret @ file:///etc/passwd\n-r {text}\n")
    found = made(FolderTree(root), store)
    recipe = load_text(found.text, "recipes/evil.yaml", "evil")
    assert list(recipe.variants) == ["cpu"] and recipe.variants["cpu"].wheels == ["numpy==1.26.4"]
    assert "\x1b" not in found.text and "passwd" not in str(recipe)


# --- Repairs. The control is tests/importing/test_repair.py.


@pytest.mark.parametrize(
    ("op", "path", "value"),
    [
        ("add", "/variants/*/wheel_indexes/-", "https://evil.example/simple"),
        ("add", "/variants/*/files/-", {"name": "x", "urls": ["https://evil.example/x"], "path": "/usr/bin/x"}),
        ("replace", "/variants/*/sources/0/git", "https://evil.example/x"),
        ("replace", "/variants/*/sources/0/commit", "1" * 40),
        ("add", "/variants/*/mounts/-", {"source": "x", "target": "/etc"}),
        ("add", "/variants/*/env/LD_PRELOAD", "/workspace/evil.so"),
        ("add", "/variants/*/build_args/CFLAGS", "-fplugin=evil"),
        ("add", "/variants/*/blocks/-", {"run": {"commands": ["evil"]}}),
        ("replace", "/variants/*/base", "evil.example/image"),
        ("replace", "/smoke/0/command", "evil"),
        ("remove", "/variants/*/apt/0", "git"),
        ("add", "/variants/*/apt/-", "x; touch /tmp/evil"),
        ("add", "/variants/*/apt/-", "git=1:1.0"),
        ("add", "/variants/*/apt/../env/X", "evil"),
        ("add", "/variants/*/apt/-", ["git", "evil"]),
        ("add", "/variants/*/wheels/-", "evil @ https://evil.example/evil.whl"),
        ("add", "/variants/*/wheels/-", "evil @ git+https://evil.example/evil@main"),
        ("add", "/variants/*/wheels/-", "--extra-index-url=https://evil.example"),
        ("add", "/variants/*/wheels/-", "numpy; python_version > '3'"),
        ("add", "/variants/*/wheels/-", {"file": "../../etc/passwd"}),
        ("replace", "/variants/*/pins/gcc", "11; touch /tmp/evil"),
        ("replace", "/variants/*/pins/gcc", "11\n  evil: x"),
        ("replace", "/variants/*/pins/base", "evil.example/image"),
        ("add", "/variants/*/sources/0/submodules", ["../../x"]),
        ("add", "/variants/*/build_args/MAX_JOBS", "9999999999"),
        ("add", "/variants/*/build_args/MAX_JOBS", "1; evil"),
        ("add", "/variants/*/build_args/MAX_JOBS", "-1"),
    ],
)
def test_a_change_beyond_packages_pins_submodules_and_jobs_is_refused(op, path, value):
    assert isinstance(permitted({"op": op, "path": path, "value": value}, VARIANT), str)


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'evil_package'",
        "ModuleNotFoundError: No module named 'evil @ https://evil.example/x'",
        "E: fatal error: ../../evil.h: No such file or directory",
        "a.c:1:10: fatal error: evil/evil.h: No such file or directory",
        "/usr/bin/ld: cannot find -levil: No such file or directory",
        "/bin/sh: 1: evil: not found",
        "No package 'evil' found",
        "libevil.so.1: cannot open shared object file: No such file or directory",
    ],
)
def test_a_setup_that_prints_a_known_failure_adds_no_package_of_its_own_choice(line: str):
    """The names in a log choose among the packages of reprokit's table; the control adds one of these."""
    world = World([failure(line)])
    rounds = world.run()
    assert world.written == [] and rounds[0].changes == ()
    control = World([failure("ModuleNotFoundError: No module named 'h5py'")], [])
    assert control.run()[0].changes == ("wheels: h5py==1.0",)


def test_text_of_a_log_stays_in_its_comment():
    evil = "src/x.c:1:10: fatal error: curl/a\u2028b\x1b[31m\u202e: No such file or directory"
    (change,) = explain(logs.stream(f"{evil}\n"), failed=True).causes[0].recipe_change or [None]
    cause = explain(logs.stream(f"{evil}\n"), failed=True).causes[0].cause
    text = changed(
        RECIPE, "cpu", [change or {"op": "add", "path": "/variants/*/apt/-", "value": "git"}], f"{cause}\nx: y"
    )
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert len(variant.apt) == 1 and not variant.env and "\x1b" not in text and "\nx: y" not in text
