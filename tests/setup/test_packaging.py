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

pytestmark = [pytest.mark.network, pytest.mark.xdist_group("packaging")]

CARRIED = ("recipes", "images", "workspaces/fused_attention", "workspaces/operator_fusion")


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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize("folder", CARRIED)
def test_wheel_carries_every_tracked_file(wheel: Path, folder: str) -> None:
    wanted = {f"reprokit/data/{name}" for name in tracked(folder)}
    assert wanted, f"{folder} is empty"
    assert wanted <= names_in(wheel)


def test_wheel_carries_the_pages_without_their_pictures(wheel: Path) -> None:
    shipped = {name for name in names_in(wheel) if name.startswith("reprokit/data/docs/")}
    assert {f"reprokit/data/{name}" for name in tracked("docs") if re.fullmatch(r"docs/[^/]+\.md", name)} <= shipped
    assert not [name for name in shipped if not name.endswith((".md", ".yml"))]


def test_wheel_carries_the_package_and_nothing_of_the_checkout(wheel: Path) -> None:
    names = names_in(wheel)
    assert tracked("reprokit") <= names
    assert "reprokit/py.typed" in names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"reprokit"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".so", ".o"))]


def test_heavy_requirements_come_with_an_extra_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    always = {need.name for need in needed if need.marker is None}
    assert "docker" in always and not always & {"torch", "numpy", "ninja", "pytest", "hatchling"}
    extension = {need.name for need in needed if need.marker and need.marker.evaluate({"extra": "extension"})}
    assert {"torch", "ninja"} <= extension


def test_sdist_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    shutil.unpack_archive(sdist, tmp_path)
    (unpacked,) = tmp_path.glob("reprokit_papers-*")
    assert names_in(build("wheel", unpacked, tmp_path / "again")) == names_in(wheel)


def test_installed_tool_knows_its_commit_and_finds_its_recipes_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    command = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, capture_output=True)
    # The dependencies are those of the environment that runs the tests: nothing is downloaded.
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", query], check=True, capture_output=True, text=True).stdout.strip()
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [tmp_path / "venv/bin/reprokit", "list", "--json"]
    listed = subprocess.run(command, cwd=elsewhere, check=True, capture_output=True, text=True)
    named = {path.stem for path in (ROOT / "recipes").glob("*.yaml") if not path.name.endswith(".lock.yaml")}
    assert json.loads(listed.stdout)
    assert named and {name for name in named if f'"{name}"' not in listed.stdout} == set()

    shown = [tmp_path / "venv/bin/reprokit", "help", "mirrors"]
    page = subprocess.run(shown, cwd=elsewhere, check=True, capture_output=True, text=True).stdout
    assert page == (ROOT / "docs/mirrors.md").read_text()

    version = subprocess.run(
        [tmp_path / "venv/bin/reprokit", "--version"], cwd=elsewhere, check=True, capture_output=True, text=True
    )
    with zipfile.ZipFile(wheel) as archive:
        commit = archive.read("reprokit/COMMIT").decode().strip() if "reprokit/COMMIT" in archive.namelist() else ""
    assert bool(commit) == (ROOT / ".git").exists()
    assert version.stdout.endswith(f"({commit})\n" if commit else f"{__version__}\n")
