"""Compilers, flags and architectures."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from fused_attention import archs, ninjafile, sources, toolchain
from torch.utils import cpp_extension

pytestmark = pytest.mark.compiler

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


def test_an_architecture_that_nvcc_lacks_is_named():
    with pytest.raises(ValueError, match=re.escape("this nvcc does not know 8.6; it knows 3.0, 5.0")):
        archs.choose("7.5;8.6", [], NVCC_10_2, [])


def test_no_architectures_at_all_is_no_index_error():
    with pytest.raises(ValueError, match="set TORCH_CUDA_ARCH_LIST"):
        archs.choose("", [], [], [])


def test_flags_of_architectures():
    assert archs.gencode_flags(["9.0a", "12.0+PTX"]) == (
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120,code=sm_120",
        "-gencode=arch=compute_120,code=compute_120",
    )


def test_what_nvcc_knows_is_read_off_its_help():
    text = "Allowed values: 'compute_75','compute_90a', 'sm_90a','compute_100','compute_75'."
    assert archs.from_help(text) == ["7.5", "9.0a", "10.0"]


def test_a_word_that_is_no_architecture_is_named():
    with pytest.raises(ValueError, match=r"is '8\.0;Amper', and Amper is no architecture"):
        archs.choose("8.0;Amper", [], NVCC_11_8, [])


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


@pytest.mark.parametrize(("version", "standard"), [("1.8.0", "14"), ("2.0.1", "14"), ("2.1.0", "17"), ("2.12.0", "20")])
def test_the_standard_of_torchs_headers(monkeypatch, version, standard):
    monkeypatch.setattr(toolchain.torch, "__version__", version)
    assert toolchain.torch_standard() == f"c++{standard}"


def test_the_standard_is_what_the_installed_torch_compiles_with():
    text = Path(cpp_extension.__file__).read_text()
    assert set(re.findall(r"'-std=(c\+\+\d+)'", text)) == {toolchain.torch_standard()}


def test_ninja_beside_a_python_that_is_not_activated(tmp_path, monkeypatch):
    ninja = tmp_path / "ninja"
    shutil.copy("/bin/true", ninja)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain.sys, "executable", str(tmp_path / "python"))
    assert toolchain.find_ninja() == str(ninja)
    ninja.unlink()
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda *names: str(tmp_path / "user"))
    with pytest.raises(toolchain.ToolchainError, match="python -m pip install ninja"):
        toolchain.find_ninja()
    (tmp_path / "user").mkdir()
    shutil.copy("/bin/true", tmp_path / "user" / "ninja")
    assert toolchain.find_ninja() == str(tmp_path / "user" / "ninja")


def test_the_real_compiler_is_found(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    assert shutil.which("c++") and toolchain.find().compiler_version


class TestHopper:
    """Code for 9.0a needs nvcc 12.3, CUTLASS's headers, and a 9.0 among the architectures."""

    KNOWN = "compute_80 compute_90 compute_90a compute_100"

    @pytest.fixture
    def cutlass(self, tmp_path, monkeypatch):
        for header in ("cute/tensor.hpp", "cutlass/version.h"):
            file = tmp_path / "cutlass/include" / header
            file.parent.mkdir(parents=True)
            file.write_text("4.2")
        monkeypatch.setenv("CUTLASS_HOME", str(tmp_path / "cutlass"))
        return tmp_path / "cutlass/include"

    @pytest.fixture
    def toolkit(self, tmp_path, monkeypatch):
        def make(release, known=self.KNOWN):
            nvcc = tmp_path / "cuda/bin/nvcc"
            nvcc.parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "cuda/include").mkdir(exist_ok=True)
            (tmp_path / "cuda/include/cuda_runtime.h").touch()
            answer = f'case $1 in --help) echo "{known}";; *) echo "Cuda tools, release {release}, V";; esac'
            nvcc.write_text(f"#!/bin/sh\n{answer}\n")
            nvcc.chmod(0o755)
            monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
            monkeypatch.setattr(toolchain.torch.version, "cuda", release)
            monkeypatch.setattr(archs, "of_torch", lambda: [])

        return make

    @pytest.mark.parametrize(
        ("release", "requested", "built"),
        [("12.3", "", True), ("12.3", "8.0;9.0a", True), ("12.3", "8.0", False), ("12.2", "", False)],
    )
    def test_when_it_is_built(self, toolkit, cutlass, monkeypatch, release, requested, built):
        toolkit(release)
        monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", requested)
        tools = toolchain.find()
        assert tools.cutlass == (str(cutlass) if built else None)
        assert ("-DFUSED_ATTENTION_HOPPER" in ninjafile.cxx_flags(tools)) == built

    def test_another_cutlass_in_the_same_place_is_another_build(self, toolkit, cutlass):
        toolkit("12.4")
        before = toolchain.find().identity()
        (cutlass / "cutlass/version.h").write_text("4.3")
        assert toolchain.find().identity() != before

    def test_a_folder_without_cute_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CUTLASS_HOME", str(tmp_path))
        with pytest.raises(toolchain.ToolchainError, match=f"CUTLASS_HOME is {tmp_path}, which holds no"):
            toolchain.find_cutlass()

    def test_each_rule_has_its_own_architectures_and_standard(self, toolkit, cutlass, monkeypatch):
        toolkit("12.4")
        monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;9.0")
        monkeypatch.setenv("CXX", "env c++")
        tools = toolchain.find()
        names = ["cuda/hopper/kernel.cu", "cuda/launch.cu", "cuda/op.cpp", "cpu/op.cpp"]
        lines = ninjafile.text("/my csrc", names, tools, "x.so", cpp_extension).splitlines()
        rules = {lines[i].split()[1]: lines[i + 1] for i in range(len(lines)) if lines[i].startswith("rule ")}
        hopper, cuda = rules["hopper"].split(), rules["cuda"].split()
        assert [flag for flag in hopper if "gencode" in flag] == ["-gencode=arch=compute_90a,code=sm_90a"]
        assert {"-std=c++17", f"-I{cutlass}", "-DFUSED_ATTENTION_HOPPER"} <= set(hopper)
        assert [flag[-5:] for flag in cuda if "gencode" in flag] == ["sm_80", "sm_90"]
        assert "-std=c++14" in cuda and not any("cutlass" in flag for flag in cuda)
        assert cuda[cuda.index("-ccbin") + 1] == "c++"
        assert "build cuda-hopper-kernel.cu.o: hopper /my$ csrc/cuda/hopper/kernel.cu" in lines
        assert "build cuda-launch.cu.o: cuda /my$ csrc/cuda/launch.cu" in lines
        objects = [line.split()[1] for line in lines if line.startswith("build cuda") or line.startswith("build cpu")]
        assert len(set(objects)) == 4

    def test_sources_that_share_headers_are_compiled_together(self):
        tools = toolchain.Toolchain("c++", "", None, "", "", (), None)
        names = ["autograd.cpp", "cpu/plan.cpp", "checks.cpp", "backward.cpp"]
        lines = ninjafile.text("/my csrc", names, tools, "x.so", cpp_extension).splitlines()
        joined = lines.index("build autograd.cpp.o: join /my$ csrc/autograd.cpp /my$ csrc/backward.cpp")
        assert lines[joined + 1] == "  files = -include '/my csrc/autograd.cpp' -include '/my csrc/backward.cpp'"
        assert "build checks.cpp.o: compile /my$ csrc/checks.cpp" in lines
        assert lines[-1] == "build x.so: link autograd.cpp.o checks.cpp.o cpu-plan.cpp.o"


class TestSources:
    CPU = toolchain.Toolchain("c++", "", None, "", "", (), None)
    CUDA = CPU._replace(cuda_home="/cuda", archs=("8.0",))
    HOPPER = CUDA._replace(cutlass="/cutlass")

    def test_every_file_is_in_some_build(self, csrc):
        builds = [set(sources.chosen(str(csrc), tools)) for tools in (self.CPU, self.CUDA, self.HOPPER)]
        on_disk = {str(file.relative_to(csrc)) for suffix in ("cpp", "cu") for file in csrc.rglob(f"*.{suffix}")}
        assert set.union(*builds) == on_disk

    def test_the_rules_of_the_folders(self, tmp_path):
        names = ["a.cpp", "a.h", "cpu/op.cpp", "cuda/op.cpp", "cuda/launch.cu", "cuda/missing.cpp", "cuda/hopper/x.cu"]
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        chosen = [sources.chosen(str(tmp_path), tools) for tools in (self.CPU, self.CUDA, self.HOPPER)]
        assert chosen == [
            ["a.cpp", "cpu/op.cpp", "cuda/missing.cpp"],
            ["cuda/launch.cu", "a.cpp", "cpu/op.cpp", "cuda/op.cpp"],
            ["cuda/hopper/x.cu", "cuda/launch.cu", "a.cpp", "cpu/op.cpp", "cuda/op.cpp"],
        ]

    def test_sources_for_nvcc_include_no_header_of_torch(self, csrc):
        assert [
            name
            for name in sources.every(str(csrc))
            if sources.is_cuda(name) and re.search(r"#include <(torch|ATen|c10)/", (csrc / name).read_text())
        ] == []
