"""What an installed reprokit carries: built, installed away from the checkout, and asked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from reprokit import __version__
from tests.support.paths import ROOT

PACKAGED = ("recipes", "images", "workspaces/fused_attention", "workspaces/operator_fusion")


def tracked(folder: str) -> set[str]:
    """The files below `folder` that git knows and that are there; outside a clone, all that are there."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}


def build(kind: str, source: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", into]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = into.iterdir()
    return built


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.network
def test_the_wheel_and_the_tool_that_is_installed_from_it(tmp_path: Path) -> None:
    wheel = build("wheel", ROOT, tmp_path / "wheel")
    names = names_in(wheel)
    for folder in PACKAGED:
        files = {f"reprokit/data/{name}" for name in tracked(folder)}
        assert files and files <= names, folder
    pages = {name for name in names if name.startswith("reprokit/data/docs/")}
    assert {f"reprokit/data/{name}" for name in tracked("docs") if re.fullmatch(r"docs/[^/]+\.md", name)} <= pages
    assert not [name for name in pages if not name.endswith((".md", ".yml"))]  # no pictures
    assert {*tracked("reprokit"), "reprokit/py.typed"} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"reprokit"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".so", ".o"))]

    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
        commit = archive.read("reprokit/COMMIT").decode().strip() if "reprokit/COMMIT" in names else ""
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    always = {each.name for each in requirements if each.marker is None}
    assert "docker" in always and not always & {"torch", "numpy", "ninja", "pytest", "hatchling"}
    extension = {each.name for each in requirements if each.marker and each.marker.evaluate({"extra": "extension"})}
    assert {"torch", "ninja"} <= extension

    sdist = build("sdist", ROOT, tmp_path / "sdist")
    shutil.unpack_archive(sdist, tmp_path)
    (unpacked,) = tmp_path.glob("reprokit_papers-*")
    assert names_in(build("wheel", unpacked, tmp_path / "again")) == names

    # The dependencies are those of the environment that runs the tests: nothing is downloaded.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", tmp_path / "venv/bin/python", "install", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--no-compile", wheel], check=True, capture_output=True)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def reprokit(*words: str) -> str:
        command = [tmp_path / "venv/bin/reprokit", *words]
        return subprocess.run(command, cwd=elsewhere, check=True, capture_output=True, text=True).stdout

    recipes = {path.stem for path in (ROOT / "recipes").glob("*.yaml") if not path.name.endswith(".lock.yaml")}
    assert recipes and recipes <= {row["name"] for row in json.loads(reprokit("list", "--json"))}
    assert reprokit("help", "mirrors") == (ROOT / "docs/mirrors.md").read_text()
    assert bool(commit) == (ROOT / ".git").exists()
    assert reprokit("--version") == f"reprokit {__version__}{f' ({commit})' if commit else ''}\n"
