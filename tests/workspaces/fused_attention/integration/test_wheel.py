"""A wheel built ahead of time: offline, without build isolation, installed into a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from fused_attention import archs, prebuilt, toolchain

import reprokit

ALONE = pytest.mark.xdist_group("extension-wheel")
CALL = """
import torch, fused_attention
q = torch.ones(1, 1, 4, 8)
assert torch.equal(fused_attention.fused_attention(q, q, q), q)
print(fused_attention.__file__)
"""


def run(*command, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def environment(**changes: str) -> dict[str, str]:
    return {name: value for name, value in {**os.environ, **changes}.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(workspace, tmp_path_factory) -> Path:
    # Of a copy: setuptools leaves its own folders beside setup.py. The library is that of the cache.
    source = tmp_path_factory.mktemp("wheel") / "source"
    shutil.copytree(workspace, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", source.parent, source)
    [file] = source.parent.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> tuple[Path, Path]:
    """The Python of a new environment, which sees this environment's torch, and the package of the wheel in it."""
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python, packages / "fused_attention"


@ALONE
def test_its_name_and_its_sources(wheel, csrc):
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    version = re.escape(reprokit.__version__)
    assert re.fullmatch(rf"reprokit_fused_attention-{version}-{tag}-{tag}-linux_\w+\.whl", wheel.name)
    patterns = ("*.py", "csrc/**/*", "bench/*.py", "bench/csrc/*")
    files = [file for pattern in patterns for file in csrc.parent.glob(pattern) if file.is_file()]
    names = {f"fused_attention/{file.relative_to(csrc.parent)}" for file in files}
    assert names <= set(zipfile.ZipFile(wheel).namelist())


@ALONE
def test_its_library_needs_no_compiler(installed, tmp_path):
    python, package = installed
    settings = environment(CXX="no-such-compiler", FUSED_ATTENTION_CACHE=str(tmp_path))
    done = run(python, "-c", CALL, env=settings, cwd=tmp_path)
    assert done.stdout == f"{package}/__init__.py\n" and done.stderr == ""
    assert not list(tmp_path.iterdir())


@ALONE
@pytest.mark.parametrize(
    ("part", "value", "message"),
    [(0, "1.8.0", r"torch 1\.8\.0, and here is 2\S+"), (3, "cpython-36m", r"Python cpython-36m, and here is \S+")],
)
def test_where_it_does_not_fit_the_sources_are_compiled(installed, tmp_path, part, value, message):
    python, package = installed
    manifest = package / "prebuilt/built_for.json"
    before = manifest.read_text()
    built_for = json.loads(before)
    built_for["identity"][part] = value
    manifest.write_text(json.dumps(built_for))
    try:
        # This environment's own cache has the same sources compiled by now.
        done = run(python, "-c", CALL, env=environment(), cwd=tmp_path)
    finally:
        manifest.write_text(before)
    line = rf"fused_attention: the wheel's library is for {message}: its sources are compiled instead, once\n"
    assert re.fullmatch(line, done.stderr)


@pytest.mark.parametrize(
    ("built", "seen", "nvcc", "fits"),
    [
        (["8.0"], ["8.6"], True, True),
        (["8.0"], ["9.0"], True, False),
        # A new build would have no kernel for it either.
        (["8.0"], ["9.0"], False, True),
        ([], [], True, True),
    ],
)
def test_gpus_that_it_has_no_code_for(tmp_path, monkeypatch, caplog, built, seen, nvcc, fits):
    (tmp_path / "library").touch()
    prebuilt.write(str(tmp_path / "prebuilt"), str(tmp_path / "library"), built)
    monkeypatch.setattr(archs, "visible", lambda: seen)
    monkeypatch.setattr(toolchain, "find_cuda_home", lambda: "/cuda" if nvcc else None)
    library = prebuilt.find(str(tmp_path / "prebuilt"))
    assert library == (str(tmp_path / "prebuilt/fused_attention.so") if fits else None)
    assert ("for GPUs of capability 8.0, and here is one of 9.0" in caplog.text) == (not fits)
