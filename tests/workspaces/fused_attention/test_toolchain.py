"""Compilers, flags and architectures."""

from __future__ import annotations

import re
import shutil

import pytest
from fused_attention import toolchain
from fused_attention.toolchain import choose_archs, gencode_flags

pytestmark = pytest.mark.extension

NVCC_10_2 = ["3.0", "5.0", "6.0", "6.1", "7.0", "7.5"]
NVCC_11_8 = ["5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0"]
NVCC_13_0 = ["7.5", "8.0", "8.6", "8.9", "9.0", "9.0a", "10.0", "10.0a", "12.0", "12.0a"]


@pytest.mark.parametrize(
    ("requested", "visible", "nvcc", "torch_known", "expected"),
    [
        ("7.0;8.6+PTX", ["9.0"], NVCC_11_8, [], ["7.0", "8.6+PTX"]),
        ("9.0a 10.0", [], NVCC_13_0, [], ["9.0a", "10.0"]),
        ("Ampere;8.6", [], NVCC_11_8, [], None),
        ("", ["8.6", "8.0", "8.6"], NVCC_11_8, [], ["8.0", "8.6"]),
        ("", ["12.0"], NVCC_11_8, [], ["9.0+PTX"]),
        ("", [], NVCC_10_2, ["3.7", "5.0", "6.0", "7.0", "7.5"], ["6.0", "7.0", "7.5+PTX"]),
        ("", [], NVCC_11_8, ["5.0", "6.0", "7.0", "7.5", "8.0", "8.6"], ["6.0", "7.0", "7.5", "8.0", "8.6+PTX"]),
        ("", [], NVCC_13_0, [], ["7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0+PTX"]),
        ("", [], NVCC_13_0, ["3.7"], ["7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0+PTX"]),
        ("", [], ["5.0", "5.2"], [], ["5.2+PTX"]),
    ],
)
def test_architectures(requested, visible, nvcc, torch_known, expected):
    assert choose_archs(requested, visible, nvcc, torch_known) == expected


def test_an_architecture_that_nvcc_lacks_is_named():
    with pytest.raises(ValueError, match=re.escape("this nvcc does not know 8.6; it knows 3.0, 5.0")):
        choose_archs("7.5;8.6", [], NVCC_10_2, [])


def test_no_architectures_at_all_is_no_index_error():
    with pytest.raises(ValueError, match="set TORCH_CUDA_ARCH_LIST"):
        choose_archs("", [], [], [])


def test_flags_of_architectures():
    assert gencode_flags(["9.0a", "12.0+PTX"]) == (
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120,code=sm_120",
        "-gencode=arch=compute_120,code=compute_120",
    )


def test_what_nvcc_knows_is_read_off_its_help(tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\necho \"Allowed values: 'compute_75','compute_90a', 'sm_90a','compute_100','compute_75'.\"\n"
    )
    nvcc.chmod(0o755)
    assert toolchain.nvcc_archs(str(nvcc)) == ["7.5", "9.0a", "10.0"]


def test_cuda_is_left_out_where_torch_has_none(monkeypatch):
    monkeypatch.setattr(toolchain.torch.version, "cuda", None)
    found = toolchain.find()
    assert found.cuda_home is None and found.cuda_flags == ()


@pytest.mark.parametrize("headers", ["include", "targets/x86_64-linux/include"])
def test_half_a_cuda_toolkit_is_passed_over(tmp_path, monkeypatch, headers):
    files = ["wrapper/bin/nvcc", "runtime/include/cuda_runtime.h", "good/bin/nvcc", f"good/{headers}/cuda_runtime.h"]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch(mode=0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "runtime"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "good"))
    monkeypatch.setenv("PATH", str(tmp_path / "wrapper/bin"))
    assert toolchain.find_cuda_home() == str(tmp_path / "good")


@pytest.mark.parametrize(("version", "define"), [("1.8.0", 108), ("2.13.0+cpu", 213), ("2.15.0a0+git1", 215)])
def test_torchs_version_for_the_sources(monkeypatch, version, define):
    monkeypatch.setattr(toolchain.torch, "__version__", version)
    assert toolchain.torch_define() == f"-DFUSED_ATTENTION_TORCH={define}"


def test_ninja_beside_a_python_that_is_not_activated(tmp_path, monkeypatch):
    ninja = tmp_path / "ninja"
    ninja.write_text("#!/bin/sh\n")
    ninja.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain.sys, "executable", str(tmp_path / "python"))
    assert toolchain.ninja_folder() == str(tmp_path)
    ninja.unlink()
    with pytest.raises(toolchain.ToolchainError, match="python -m pip install ninja"):
        toolchain.ninja_folder()


def test_the_real_compiler_is_found(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    assert shutil.which("c++") and toolchain.find().compiler_version
