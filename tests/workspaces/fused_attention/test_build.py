"""Building and loading: what makes a build another one, and how it survives what goes wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fused_attention import build, cache, toolchain

pytestmark = [pytest.mark.long, pytest.mark.compiler]

GOOD = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A source folder with one small file, and a cache of its own."""
    monkeypatch.setenv("FUSED_ATTENTION_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "main.cpp").write_text(GOOD)
    (folder / "part.h").write_text("")
    return folder


@pytest.fixture
def tools():
    return toolchain.find()


def build_it(project: Path, tools, name="small") -> Path:
    return Path(build.build_library(str(project), ["main.cpp"], tools, name))


def folder_of(project: Path, tools) -> str:
    return build.build_folder(str(project), ["main.cpp"], tools)


def test_the_folder_follows_everything_that_changes_the_result(project, tools, monkeypatch):
    folders = [folder_of(project, tools)]
    for field in ("compiler", "compiler_version", "nvcc_version", "nvcc_host", "cuda_home"):
        folders.append(folder_of(project, tools._replace(**{field: "another"})))
    folders.append(folder_of(project, tools._replace(archs=("8.0",))))
    with monkeypatch.context() as patch:
        patch.setattr(build, "cxx_flags", lambda tools: ["-g"])
        folders.append(folder_of(project, tools))
    (project / "part.h").write_text("// a header that main.cpp may include\n")
    folders.append(folder_of(project, tools))
    (project / "part.h").rename(project / "renamed.h")
    folders.append(folder_of(project, tools))
    (project / "folder").mkdir()
    (project / "renamed.h").rename(project / "folder" / "renamed.h")
    folders.append(folder_of(project, tools))
    (project / "main.cpp").write_text(GOOD + "// changed\n")
    folders.append(folder_of(project, tools))
    monkeypatch.setattr(build.toolchain.torch, "__version__", "2.12.0+cpu")
    folders.append(folder_of(project, tools))
    monkeypatch.setattr(build.toolchain.sysconfig, "get_config_var", lambda name: "cpython-310")
    folders.append(folder_of(project, tools))
    assert len(set(folders)) == len(folders)
    assert folder_of(project, tools) == folders[-1]


def test_a_finished_build_is_loaded_without_compiling(project, tools, monkeypatch):
    library = build_it(project, tools)
    assert library.is_file()
    monkeypatch.setattr(build, "_compile", lambda *arguments: pytest.fail("compiled again"))
    assert build_it(project, tools) == library


def test_two_processes_build_at_once(project, workspace):
    code = (
        "import sys; from fused_attention import build, toolchain;"
        "print(build.build_library(sys.argv[1], ['main.cpp'], toolchain.find(), 'shared'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(workspace)}
    command = [sys.executable, "-c", code, str(project)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    outputs = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0] and len(outputs) == 1


def test_a_failed_build_begins_with_its_first_cause(project, tools):
    (project / "main.cpp").write_text('#include "nowhere.h"\nint x = "text";\n')
    with pytest.raises(build.BuildError) as failure:
        build_it(project, tools, name="failing")
    lines = str(failure.value).splitlines()
    assert lines[0].endswith("main.cpp:1:10: fatal error: nowhere.h: No such file or directory")
    log = Path(lines[-1].split(": ", 1)[1].rstrip(")"))
    assert "ninja: build stopped" in log.read_text()
    # The mistake corrected, the same name builds: nothing of the failure remains.
    (project / "main.cpp").write_text(GOOD)
    build_it(project, tools, name="corrected")


def test_an_undefined_symbol_is_named_in_cpp_with_its_declaration(project, tools):
    (project / "part.h").write_text("namespace a {\nint missing(float* x);\nint missing(float* x, long n);\n}\n")
    (project / "main.cpp").write_text('#include "part.h"\nint x = a::missing(nullptr, 1);\n')
    declared = re.escape(f"a::missing(float*, long) (declared at {project / 'part.h'}:3) is called, and nothing")
    with pytest.raises(build.BuildError, match=declared):
        build_it(project, tools, name="undefined")


def test_an_undefined_symbol_of_torch_is_found_in_its_headers(project, tools):
    """As where a library meets another torch than it was compiled for."""
    (project / "main.cpp").write_text(
        "#include <cstdint>\nnamespace at { void set_num_threads(int, int); }\n"
        'int64_t gone() asm("_ZN2at15get_num_threadsEi");\nint64_t x = gone();\n'
    )
    with pytest.raises(build.BuildError, match=r"at::get_num_threads\(int\) \(declared at .*ATen/Parallel.h:\d+\)"):
        build_it(project, tools, name="renamed")


def test_importing_compiles_nothing_and_imports_no_build_tools(workspace):
    code = (
        "import sys, fused_attention; from fused_attention import build;"
        "print(build.is_loaded(), 'torch.utils.cpp_extension' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(workspace)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "False False\n"


def test_load_reports_what_is_missing(monkeypatch):
    monkeypatch.setattr(build, "_loaded", False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler: 'no-such-compiler' does not run"):
        build.load()


def test_a_missing_setuptools_is_named(project, tools, tmp_path, monkeypatch):
    (tmp_path / "setuptools.py").write_text("raise ImportError(\"No module named 'setuptools'\", name='setuptools')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"does not import .*python -m pip install setuptools"):
        build_it(project, tools, name="bare")


def test_a_missing_ninja_is_the_first_line(project, tools, monkeypatch):
    monkeypatch.setattr(toolchain, "search_path", lambda: "/nowhere")
    with pytest.raises(build.BuildError, match=r"(?m)^.*Ninja is required.*$"):
        build_it(project, tools._replace(compiler="/usr/bin/c++"), name="bare")


def test_a_compiler_that_was_upgraded_compiles_anew(project, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "compiler"))
    libraries = []
    for version in ("12.2", "12.3"):
        script = f'[ "$1" = --version ] && echo {version} && exit; echo >> {tmp_path}/calls; exec c++ "$@"'
        (tmp_path / "compiler").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "compiler").chmod(0o755)
        libraries.append(build_it(project, toolchain.find(), name="upgraded"))
    assert libraries[0] != libraries[1]
    # One call to compile and one to link, twice.
    assert (tmp_path / "calls").read_text() == "\n" * 4


def test_a_library_that_was_tidied_away_or_cut_short_is_built_again(project, tools):
    # Compiled only: a library that this process has loaded must not change under it.
    def compiled() -> Path:
        return Path(build.compile_library(str(project), ["main.cpp"], tools, "tidied"))

    library = compiled()
    size = library.stat().st_size
    os.truncate(library, size // 2)
    assert not cache.is_complete(str(library))
    assert compiled().stat().st_size == size
    library.unlink()
    assert compiled().stat().st_size == size


def test_messages_are_english_in_any_locale(project, tools, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    script = project.parent / "compiler"
    script.write_text('#!/bin/sh\n[ "$LC_ALL" = C ] || exit 1\nexec c++ "$@"\n')
    script.chmod(0o755)
    build_it(project, tools._replace(compiler=str(script)), name="english")


class TestRoot:
    def test_asked_for(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "torch"))
        monkeypatch.delenv("FUSED_ATTENTION_CACHE", raising=False)
        assert cache.root() == str(tmp_path / "torch")
        monkeypatch.setenv("FUSED_ATTENTION_CACHE", str(tmp_path / "ours"))
        assert cache.root() == str(tmp_path / "ours")

    def test_asked_for_and_not_writable(self, monkeypatch):
        monkeypatch.setenv("FUSED_ATTENTION_CACHE", "/proc/nowhere")
        with pytest.raises(OSError, match="FUSED_ATTENTION_CACHE is /proc/nowhere, which cannot be written"):
            cache.root()

    def test_without_a_home(self, tmp_path, monkeypatch):
        for variable in ("FUSED_ATTENTION_CACHE", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("HOME", "/proc/nowhere")
        monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
        root = Path(cache.root())
        assert root.parent == tmp_path and root.stat().st_mode & 0o777 == 0o700
        root.chmod(0o777)
        with pytest.raises(OSError, match="another user's or writable by others"):
            cache.root()
