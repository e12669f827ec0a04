"""The branches for older versions of torch compile: this torch still has the names that they use."""

from __future__ import annotations

import subprocess

import pytest
from torch.utils import cpp_extension

pytestmark = [pytest.mark.long, pytest.mark.compiler]


# Together they reach every branch. One file for each version: torch's headers take most of the time.
BRANCHES = {108: ["ops.cpp", "autograd.cpp", "backward.cpp"], 113: ["ops.cpp"], 200: ["ops.cpp"]}


@pytest.mark.parametrize("version", BRANCHES)
def test_branches_of(csrc, tmp_path, version):
    (tmp_path / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in BRANCHES[version]))
    includes = [f"-I{path}" for path in (csrc, *cpp_extension.include_paths())]
    flags = ["-std=c++20", "-fsyntax-only", f"-DFUSED_ATTENTION_TORCH={version}", *includes]
    done = subprocess.run(["g++", *flags, tmp_path / "all.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_version_must_be_given(csrc):
    done = subprocess.run(["g++", "-E", "-o", "/dev/null", "compat.h"], cwd=csrc, capture_output=True, text=True)
    assert "compile with -DFUSED_ATTENTION_TORCH" in done.stderr
