"""Requirements of files beside a recipe, which strangers may have written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprokit.errors import UsageError
from reprokit.image.labels import INPUTS
from reprokit.image.lock.fit import errors_of, resolved_versions
from reprokit.image.lock.read import fresh_lock, freshness, needed_lock, sections, stale_image
from reprokit.image.render import render
from reprokit.image.request import request_of
from reprokit.recipe import requirements
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.file import write as write_lock
from reprokit.supply.lock.model import Base, Lock, VariantLock
from reprokit.untrusted.files import Folder
from reprokit.verify.run import known_differences
from tests.support.rendering import COMMIT, source, target

PROJECT = """
[project]
name = "paper"
dependencies = ["numpy>=1.20,<2"]
[project.optional-dependencies]
plot = ["matplotlib"]
all = ["paper[plot]", "tqdm"]
[dependency-groups]
test = ["pytest", {include-group = "base"}]
base = ["coverage"]
"""


def of_files(folder: Path, *wheels: object, **more: object):
    blocks = {"pins": {"python": "3.11"}, "blocks": ["python", "wheels"], **more}
    return target(folder, wheels=list(wheels), **blocks)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt").replace("_toml", ".toml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_a_file_and_those_that_it_names_become_one_set(tmp_path: Path):
    write(
        tmp_path,
        lists__dev_txt="# for tests\n-r ../base.txt\npytest>=7  # runs them\n-r dev.txt\n",
        base_txt='numpy>=1.20\nnumpy<2\ntomli; python_version < "3.11"\n',
    )
    chosen = of_files(tmp_path, {"file": "lists/dev.txt"}, "six", "numpy==1.26.4")
    found = chosen.requirements
    assert found == ["numpy==1.26.4", 'tomli ; python_version < "3.11"', "pytest>=7", "six"]
    text = render(chosen).dockerfile
    assert "expect numpy 1.26.4" in text and "expect pytest installed" in text and "expect tomli" not in text
    assert '--constraint "${REPROKIT_WHEELS}constraints.txt"' in text


def test_a_change_of_the_file_makes_the_lock_stale(tmp_path: Path):
    def hashes(text: str) -> dict[str, str]:
        write(tmp_path, base_txt=text)
        chosen = of_files(tmp_path, {"file": "base.txt"})
        return sections(chosen, render(chosen), "x86_64")

    first = hashes("numpy>=1\n")
    assert hashes("# a comment\nnumpy>=1\n") == first
    for other in ("numpy>=2\n", f"numpy>=1 --hash=sha256:{'0' * 64}\n"):
        changed = {name for name, value in hashes(other).items() if value != first[name]}
        assert changed == {"wheels"}


def test_a_project_with_extras_and_groups(tmp_path: Path):
    write(tmp_path, pyproject_toml=PROJECT)

    def found(**options: list[str]) -> list[str]:
        return of_files(tmp_path, {"file": "pyproject.toml", **options}).requirements

    assert found() == ["numpy<2,>=1.20"] or found() == ["numpy>=1.20,<2"]
    assert found(extras=["all"])[1:] == ["tqdm", "matplotlib"]
    assert found(groups=["Test"])[1:] == ["pytest", "coverage"]


def test_requirements_of_git_are_archives_of_the_commit(tmp_path: Path):
    write(tmp_path, base_txt=f"git+https://github.com/team/tool.git@{COMMIT}#egg=tool&subdirectory=py\n")
    chosen = of_files(tmp_path, {"file": "base.txt"})
    assert chosen.requirements == [f"tool @ git+https://github.com/team/tool.git@{COMMIT}#egg=tool&subdirectory=py"]
    archive = f"github.com/team/tool/archive/{COMMIT}.tar.gz#subdirectory=py"
    assert f"\"$REPROKIT_ARCHIVES\"'{archive}'" in render(chosen).dockerfile


def test_checksums_of_the_file_count(tmp_path: Path):
    write(tmp_path, base_txt=f"--require-hashes\nSix==1.16.0 --hash=sha256:{'1' * 64} \\\n  --hash=sha256:{'0' * 64}\n")
    chosen = of_files(tmp_path, {"file": "base.txt"})
    assert chosen.checksums == {"six": ["0" * 64, "1" * 64]}
    assert chosen.requirements == ["six==1.16.0"] or chosen.requirements == ["Six==1.16.0"]


ATTACKS = {
    "an index": ("--index-url https://evil.test/simple\n", "adds no index of its own: https://evil.test/simple"),
    "a second index": ("--extra-index-url https://me:secret@evil.test/s\n", "of its own: https://evil.test/s"),
    "a page of links": ("-f https://evil.test/links.html\n", "adds no index"),
    "a file of the host": ("-r ../../etc/passwd\n", "leads out of its folder"),
    "an absolute file": ("-r /etc/passwd\n", "leads out of its folder"),
    "a link": ("-r link.txt\n", "links are not followed"),
    "a pipe": ("-r pipe.txt\n", "not a regular file"),
    "an address": ("-r https://evil.test/r.txt\n", "cannot read"),
    "a trusted host": ("--trusted-host evil.test\n", "--trusted-host"),
    "an option": ("--no-binary :all:\n", "--no-binary is not supported"),
    "a constraint": ("-c other.txt\n", "--constraint is not supported"),
    "an option of one": ("six --global-option=--evil\n", "options of single requirements"),
    "a folder": ("-e .\n", "not a package of an index"),
    "a local file": ("six @ file:///etc/passwd\n", "not a package of an index"),
    "a wheel of the folder": ("./six.whl\n", "not a requirement"),
    "a plain address": ("six @ https://evil.test/six-1.0.tar.gz\n", "not a package of an index"),
    "a local repository": ("six @ git+file:///root/.ssh@v1\n", "not an https:// address"),
    "a command of git": ("six @ git+ext::sh@v1\n", ""),
    "a secret of the environment": ("six @ git+https://${TOKEN}@github.com/a/b@v1\n", ""),
    "a password": ("six @ git+https://me:secret@github.com/a/b@v1\n", "not an https:// address"),
    "a git option": ("six @ git+https://github.com/a/b@--upload-pack=x\n", "no"),
    "a weak checksum": ("six==1 --hash=md5:00\n", "only sha256"),
    "a moving commit": ("six @ git+https://github.com/a/b\n", "@COMMIT"),
}


@pytest.mark.parametrize(("text", "why"), ATTACKS.values(), ids=ATTACKS)
def test_a_file_of_a_stranger_reaches_nothing_else(tmp_path: Path, monkeypatch, text: str, why: str):
    monkeypatch.setenv("TOKEN", "hunter2")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.txt")
    write(tmp_path, base_txt=f"tqdm\n{text}")
    with pytest.raises(UsageError) as caught:
        _ = of_files(tmp_path, {"file": "base.txt"}).requirements
    assert why in caught.value.message + str(caught.value.where)
    assert "base.txt:2" in caught.value.where
    assert (
        "root:" not in str(caught.value) and "hunter2" not in str(caught.value) and "secret@" not in str(caught.value)
    )


def test_an_index_that_the_recipe_names_too_is_no_surprise(tmp_path: Path):
    write(tmp_path, base_txt="--extra-index-url https://wheels.test/cu113/\nsix\n")
    indexes = ["https://wheels.test/cu113"]
    assert of_files(tmp_path, {"file": "base.txt"}, wheel_indexes=indexes).requirements == ["six"]


PROJECTS = {
    "dynamic": ('[project]\nname = "a"\ndynamic = ["dependencies"]\n', {}, "only after its code has run"),
    "no table": ("[tool.poetry]\n", {}, "no [project] table"),
    "no such extra": (PROJECT, {"extras": ["plto"]}, "did you mean plot?"),
    "no such group": (PROJECT, {"groups": ["tset"]}, "did you mean test?"),
    "a circle": ('[dependency-groups]\na = [{include-group = "a"}]\n', {"groups": ["a"]}, "includes itself"),
    "a host file": ('[project]\nname = "a"\ndependencies = ["b @ file:///etc/passwd"]\n', {}, "names an address"),
    "a new line": ('[project]\nname = "a"\ndependencies = ["b\\n-r /etc/passwd"]\n', {}, "control characters"),
    "another form": ("[project]\ndependencies = 3\n", {}, "project.dependencies"),
    "no toml": ("[", {}, "not valid TOML"),
    "deep": ("a = " + "[" * 5000, {}, "not valid TOML"),
}


@pytest.mark.parametrize(("text", "options", "why"), PROJECTS.values(), ids=PROJECTS)
def test_a_project_that_does_not_say_it_is_refused(tmp_path: Path, text: str, options: dict, why: str):
    write(tmp_path, pyproject_toml=text)
    with pytest.raises(UsageError) as caught:
        _ = of_files(tmp_path, {"file": "pyproject.toml", **options}).requirements
    assert why in caught.value.message and str(tmp_path / "pyproject.toml") in caught.value.where


def test_requirements_that_exclude_each_other_are_both_named(tmp_path: Path):
    write(tmp_path, base_txt="numpy<1.20\n")
    with pytest.raises(UsageError, match=r"wheel numpy<1\.20 contradicts numpy==1\.26\.4"):
        _ = of_files(tmp_path, "numpy==1.26.4", {"file": "base.txt"}).requirements
    with pytest.raises(UsageError, match=r"cannot read 'gone\.txt'") as caught:
        _ = of_files(tmp_path, {"file": "gone.txt"}).requirements
    assert "beside the recipe" in caught.value.hint


def test_pips_part_of_an_environment_is_installed_as_wheels(tmp_path: Path):
    write(tmp_path, list_txt="six\n")
    (tmp_path / "env.yml").write_text("dependencies:\n- python=3.11\n- pip:\n  - -r list.txt\n  - numpy<2\n")
    assert of_files(tmp_path, {"file": "env.yml"}).requirements == ["six", "numpy<2"]
    (tmp_path / "env.yml").write_text("dependencies:\n- pip:\n  - numpy\n  - -r ../../etc/passwd\n")
    with pytest.raises(UsageError, match="leads out") as caught:
        _ = of_files(tmp_path, {"file": "env.yml"}).requirements
    assert caught.value.where == f"{tmp_path}/env.yml:4"


TEXT = """\
name: paper
channels: [conda-forge, defaults]
dependencies:
  - python=3.9
  - Numpy 1.21.*
  - scipy >=1.7, <2
  - mkl=2021.4.0=h06a4308_640
  - pip
  - tqdm
prefix: /home/somebody/miniconda3/envs/paper
"""


def of_file(folder: Path, text: str, **more: object):
    (folder / "environment.yml").write_text(text)
    channels = {"conda_channels": ["conda-forge", "main", "r"]}
    return target(folder, conda=[{"file": "environment.yml"}], blocks=["conda"], **{**channels, **more})


def test_the_file_is_what_conda_solves(tmp_path: Path):
    chosen = of_file(tmp_path, TEXT)
    assert chosen.conda == ["python=3.9", "numpy=1.21.*", "scipy>=1.7,<2", "mkl=2021.4.0=h06a4308_640", "tqdm"]
    text = render(chosen).dockerfile
    assert "expect python 3.9 " in text and "expect mkl 2021.4.0 " in text and "expect scipy installed " in text

    def hashes(text: str) -> dict[str, str]:
        return sections(of_file(tmp_path, text, pins={"python": "3.9"}), render(chosen), "x86_64")

    first = hashes(TEXT)
    assert hashes(TEXT.replace("somebody", "other")) == first
    assert {n for n, v in hashes(TEXT.replace("tqdm", "tqdm=4")).items() if v != first[n]} == {"conda"}


REFUSED = {
    "a channel": (TEXT.replace("defaults", "evil"), "adds no channel of its own: evil", 2),
    "a channel at an address": (TEXT.replace("defaults", "https://evil.test/c"), "adds no channel", 2),
    "a channel of one": (TEXT.replace("tqdm", "evil::tqdm"), "not a specification", 9),
    "an option": (TEXT.replace("tqdm", "--file=/etc/passwd"), "not a specification", 9),
    "a file": (TEXT.replace("tqdm", "/etc/passwd"), "not a specification", 9),
    "an address": (TEXT.replace("tqdm", "https://evil.test/x.conda"), "not a specification", 9),
    "variables": (TEXT + "variables: {LD_PRELOAD: /x}\n", "`variables` of an environment.yml is not supported", 11),
    "no list": ("name: x\n", "no list `dependencies`", 0),
    "an alias": ("a: &a [1]\ndependencies: *a\n", "alias", 2),
}


@pytest.mark.parametrize(("text", "why", "line"), REFUSED.values(), ids=REFUSED)
def test_what_a_stranger_adds_is_refused(tmp_path: Path, text: str, why: str, line: int):
    with pytest.raises(UsageError) as caught:
        _ = of_file(tmp_path, text).conda
    assert why in caught.value.message
    assert caught.value.where == str(tmp_path / "environment.yml") + (f":{line}" if line else "")


def test_pips_part_is_never_left_out_in_silence(tmp_path: Path):
    text = TEXT.replace("  - pip\n", "  - pip\n  - pip:\n    - six\n")
    with pytest.raises(UsageError, match="no block installs its `pip:`") as caught:
        _ = of_file(tmp_path, text).conda
    assert "wheels: [{file: environment.yml}]" in caught.value.hint
    assert "tqdm" in of_file(tmp_path, text, wheels=[{"file": "environment.yml"}]).conda


FILES = {
    "base.txt": "-r more.txt\nsix==1.16.0\n",
    "more.txt": "tqdm\n",
    "pyproject.toml": PROJECT,
    "environment.yml": "dependencies:\n- ffmpeg=6.0\n- pip:\n  - packaging\n",
    "fix.patch": "diff",
    "blocks/own.j2": "{#\ndoes: x\n#}\n{% block final %}\nRUN true\n{% endblock %}",
}
WHEELS = [
    {"file": "base.txt"},
    {"file": "more.txt"},
    {"file": "pyproject.toml"},
    {"file": "pyproject.toml", "groups": ["test"]},
    {"file": "environment.yml"},
]


@pytest.mark.slow
def test_a_command_opens_and_parses_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What `check`, `build`, `lock --check` and `bench` decide about a variant before they use an engine."""
    opened, parsed = Counter[str](), Counter[str]()

    def counted(names: Counter[str], function: Callable[..., Any], position: int) -> Callable[..., Any]:
        def counting(*args: Any, **more: Any) -> Any:
            names[Path(str(args[position])).name] += 1
            return function(*args, **more)

        return counting

    monkeypatch.setattr(Folder, "read", counted(opened, Folder.read, 1))
    monkeypatch.setattr(requirements, "parsed_lines", counted(parsed, requirements.parsed_lines, 0))
    monkeypatch.setattr(requirements, "project_of", counted(parsed, requirements.project_of, 1))
    monkeypatch.setattr(requirements.yaml, "read", counted(parsed, requirements.yaml.read, 1))
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    sources = [source("a", "/opt/a", patches=["fix.patch"])]
    blocks = ["python", "conda", "wheels", "git", "own"]
    chosen = of_files(tmp_path, *WHEELS, conda=[{"file": "environment.yml"}], sources=sources, blocks=blocks)
    opened.clear()
    parsed.clear()
    errors_of(chosen, True)
    rendered = render(chosen)
    lock = VariantLock(
        reprokit="1", inputs=sections(chosen, rendered, "x86_64"), python="3.11", glibc="2.36", machine="x86_64",
        base=Base(reference="debian:12", digest=f"sha256:{'0' * 64}"),
    )  # fmt: skip
    write_lock(lock_path(chosen.path), Lock(recipe="paper", variants={"v": lock}))
    assert not resolved_versions(chosen) and needed_lock(chosen) == fresh_lock(chosen, rendered) == lock
    assert freshness(chosen, {INPUTS: rendered.locked_hash(lock)}) == "current"
    assert stale_image(chosen, {}).remedy == "`reprokit build paper:v` renews it"
    assert request_of(chosen, rendered, "x86_64").target.wheels and known_differences(chosen) == {}
    assert {Path(name).name for name in chosen.side_files} == {Path(name).name for name in FILES}
    assert {Path(name).name: opened[Path(name).name] for name in FILES} == dict.fromkeys(
        map(os.path.basename, FILES), 1
    )
    lines = (FILES["base.txt"], FILES["more.txt"], "packaging")
    files = ("environment.yml", "pyproject.toml", "own.j2")
    assert [parsed[Path(name).name] for name in (*lines, *files)] == [1] * 6
