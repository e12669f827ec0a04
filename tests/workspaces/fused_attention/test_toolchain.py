"""Compilers, flags and architectures."""

from __future__ import annotations

import re
import shutil

import pytest
from fused_attention import archs, build, toolchain

NVCC_10_2 = ["3.0", "5.0", "6.0", "6.1", "7.0", "7.5"]
NVCC_11_8 = ["5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0"]
NVCC_13_0 = ["7.5", "8.0", "8.6", "8.9", "9.0", "9.0a", "10.0", "10.0a", "12.0", "12.0a"]


@pytest.mark.parametrize(
    ("requested", "visible", "nvcc", "torch_known", "expected"),
    [
        ("7.0;8.6+PTX", ["9.0"], NVCC_11_8, [], ["7.0", "8.6+PTX"]),
        ("9.0a 10.0", [], NVCC_13_0, [], ["9.0a", "10.0"]),
        ("Ampere;8.9", [], NVCC_11_8, [], ["8.0", "8.6+PTX", "8.9"]),
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
    assert archs.choose(requested, visible, nvcc, torch_known) == expected


@pytest.mark.parametrize(
    ("requested", "nvcc", "message"),
    [
        ("7.5;8.6", NVCC_10_2, "this nvcc does not know 8.6; it knows 3.0, 5.0"),
        ("8.0;Amper", NVCC_11_8, "is '8.0;Amper', and Amper is no architecture"),
        ("", [], "set TORCH_CUDA_ARCH_LIST"),
    ],
)
def test_architectures_that_are_refused(requested, nvcc, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        archs.choose(requested, [], nvcc, [])


def test_flags_of_architectures():
    assert archs.gencode_flags(["9.0a", "12.0+PTX"]) == [
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120,code=sm_120",
        "-gencode=arch=compute_120,code=compute_120",
    ]
    # Hopper's own kernel gets the code of 9.0a.
    assert archs.gencode_flags(["8.0", "9.0+PTX", "9.0a"], hopper=True) == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_90,code=compute_90",
    ]


def test_nvccs_architectures_are_read_off_its_help():
    text = "Allowed values: 'compute_75','compute_90a', 'sm_90a','compute_100','compute_75'."
    assert archs.from_help(text) == ["7.5", "9.0a", "10.0"]


@pytest.mark.parametrize(
    ("built", "seen", "first"),
    [
        (["8.0", "8.6"], ["8.0", "8.9"], None),
        (["8.6"], ["8.6", "8.0"], "8.0"),
        (["7.5", "8.0"], ["9.0"], "9.0"),
        (["7.5", "8.0+PTX"], ["12.0"], None),
        (["8.0+PTX"], ["7.5"], "7.5"),
        (["9.0a"], ["9.0"], None),
        (["10.0a"], ["10.3"], "10.3"),
        (["10.0"], ["10.3"], None),
        ([], [], None),
        ([], ["8.0"], "8.0"),
    ],
)
def test_which_gpus_a_build_runs_on(built, seen, first):
    assert archs.uncovered(built, seen) == first


def test_cuda_is_left_out_where_torch_has_none(monkeypatch):
    monkeypatch.setattr(toolchain.torch.version, "cuda", None)
    found = toolchain.find()
    assert found.cuda_home is None and found.archs == () and found.cutlass is None


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
    assert toolchain.cuda_include(str(tmp_path / "good")) == str(tmp_path / "good" / headers)


@pytest.mark.parametrize(("version", "define"), [("1.8.0", 108), ("2.13.0+cpu", 213), ("2.15.0a0+git1", 215)])
def test_torchs_version_for_the_sources(monkeypatch, version, define):
    monkeypatch.setattr(toolchain.torch, "__version__", version)
    assert toolchain.torch_define() == f"-DFUSED_ATTENTION_TORCH={define}"


def test_ninja_beside_a_python_that_is_not_activated(tmp_path, monkeypatch):
    ninja = tmp_path / "ninja"
    shutil.copy("/bin/true", ninja)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain.sys, "executable", str(tmp_path / "python"))
    assert shutil.which("ninja", path=toolchain.search_path()) == str(ninja)
    ninja.unlink()
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda *names: str(tmp_path / "user"))
    assert shutil.which("ninja", path=toolchain.search_path()) is None
    (tmp_path / "user").mkdir()
    shutil.copy("/bin/true", tmp_path / "user" / "ninja")
    assert shutil.which("ninja", path=toolchain.search_path()) == str(tmp_path / "user" / "ninja")


def test_the_real_compiler_is_found(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    assert shutil.which("c++") and toolchain.find().compiler_version
    for command in ("no-such-command", "false"):
        assert toolchain.first_line([command]) is None


# Code for 9.0a needs nvcc 12.3, CUTLASS's headers, and a 9.0 among the architectures.
@pytest.fixture
def cutlass(tmp_path, monkeypatch):
    for header in ("cute/tensor.hpp", "cutlass/version.h"):
        file = tmp_path / "cutlass/include" / header
        file.parent.mkdir(parents=True)
        file.write_text("4.2")
    monkeypatch.setenv("CUTLASS_HOME", str(tmp_path / "cutlass"))
    return tmp_path / "cutlass/include"


@pytest.fixture
def find(tmp_path, monkeypatch):
    """Makes a CUDA toolkit and the list of architectures. Returns the toolchain that is then chosen."""

    def make(release, architectures):
        nvcc = tmp_path / "cuda/bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        (tmp_path / "cuda/include").mkdir()
        (tmp_path / "cuda/include/cuda_runtime.h").touch()
        known = "compute_80 compute_90 compute_90a compute_100"
        answer = f'case $1 in --help) echo "{known}";; *) echo "Cuda tools, release {release}, V";; esac'
        nvcc.write_text(f"#!/bin/sh\n{answer}\n")
        nvcc.chmod(0o755)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
        monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", architectures)
        monkeypatch.setattr(toolchain.torch.version, "cuda", release)
        monkeypatch.setattr(archs, "of_torch", lambda: [])
        return toolchain.find()

    return make


@pytest.mark.parametrize(
    ("release", "requested", "built"),
    [("12.3", "", True), ("12.3", "8.0;9.0a", True), ("12.3", "8.0", False), ("12.2", "", False)],
)
def test_when_hoppers_kernel_is_built(find, cutlass, release, requested, built):
    tools = find(release, requested)
    assert tools.cutlass == (str(cutlass) if built else None)
    assert ("-DFUSED_ATTENTION_HOPPER" in build.cxx_flags(tools)) == built


def test_another_cutlass_in_the_same_place_is_another_build(find, cutlass):
    before = find("12.4", "").identity()
    (cutlass / "cutlass/version.h").write_text("4.3")
    assert toolchain.find().identity() != before


def test_a_folder_without_cute_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTLASS_HOME", str(tmp_path))
    with pytest.raises(toolchain.ToolchainError, match=f"CUTLASS_HOME is {tmp_path}, which has no"):
        toolchain.find_cutlass()


def test_cuda_flags(find, cutlass, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "env c++")
    tools = find("12.4", "8.0;9.0")
    flags = build.cuda_flags(tools)
    assert [flag[-6:] for flag in flags if "gencode" in flag] == ["=sm_80", "sm_90a"]
    assert {"-std=c++17", "-DFUSED_ATTENTION_HOPPER", str(cutlass)} <= set(flags)
    # What torch defines, and CUTLASS cannot compile with.
    assert "-U__CUDA_NO_HALF_OPERATORS__" in flags
    assert flags[flags.index("-ccbin") + 1] == "c++"
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("CC", "gcc-11")
    environment = toolchain.find().environment()
    # nvcc refuses a second -ccbin, which torch would make of CC.
    assert "CC" not in environment and environment["CUDA_HOME"] == str(tmp_path / "cuda")
    flags = build.cuda_flags(toolchain.find())
    assert flags[-1] != "gcc-11" and "gcc-11" in flags


def test_without_cutlass_older_standards_and_general_code_suffice(find):
    flags = build.cuda_flags(find("11.8", "8.0;9.0"))
    assert [flag[-5:] for flag in flags if "gencode" in flag] == ["sm_80", "sm_90"]
    assert "-std=c++14" in flags and "-DFUSED_ATTENTION_HOPPER" not in flags


CPU = toolchain.Toolchain("c++", "", None, "", "", (), None)
CUDA = CPU._replace(cuda_home="/cuda", archs=("8.0",))


def test_every_source_is_in_some_build(csrc):
    compiled = {name for tools in (CPU, CUDA) for name in build.source_files(tools)}
    on_disk = {str(file.relative_to(csrc)) for suffix in ("cpp", "cu") for file in csrc.rglob(f"*.{suffix}")}
    assert not compiled & set(build.INCLUDED) and compiled | set(build.INCLUDED) == on_disk
    units = [csrc / name for name in compiled if name.startswith("torch_")]
    included = {name for unit in units for name in re.findall(r'#include "(.+\.cpp)"', unit.read_text())}
    assert included == set(build.INCLUDED)


def test_cuda_sources_come_first_with_names_of_their_own(csrc):
    cpu, cuda = build.source_files(CPU), build.source_files(CUDA)
    assert not any(name.startswith("cuda/") for name in cpu) and set(cpu) < set(cuda)
    is_cuda = [name.endswith(".cu") for name in cuda]
    assert is_cuda == sorted(is_cuda, reverse=True) and any(is_cuda)
    # torch.utils.cpp_extension names an object by its source's name without the folder.
    names = [name.rpartition("/")[2] for name in cuda]
    assert len(set(names)) == len(names)
    # nvcc takes no headers of torch.
    torchs = re.compile(r"#include <(torch|ATen|c10)/")
    assert [str(path) for path in csrc.rglob("*.cu") if torchs.search(path.read_text())] == []
