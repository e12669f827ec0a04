"""Building and loading: what makes a build another one, and how it survives what goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fused_attention import build, cache, toolchain

from tests.support.waiting import wait_for

GOOD = 'extern "C" int answer() { return 42; }\n'
CODE = """
import sys
from fused_attention import build, toolchain
print(build.build_library(sys.argv[1], ["main.cpp"], toolchain.find(), "shared"))
"""
# Records its calls, and refuses another locale than C; while the file `slow` is there, it leaves half an object and
# waits.
COMPILER = """#!/bin/sh
[ "$1" = --version ] && cat "$HERE/version" && exit
[ "$LC_ALL" = C ] || exit 1
echo start >> "$HERE/calls"
if [ -e "$HERE/slow" ]; then
    for last; do :; done
    echo half > "$last"
    touch "$HERE/waits"
    while [ -e "$HERE/slow" ]; do sleep 0.1; done
fi
c++ "$@" || exit
echo end >> "$HERE/calls"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A source folder with one small file, and beside it a cache and a compiler that $CXX names."""
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    (tmp_path / "version").write_text("1.0\n")
    variables = {"FUSED_ATTENTION_CACHE": "cache", "HERE": "", "CXX": "compiler"}
    for name, path in variables.items():
        monkeypatch.setenv(name, str(tmp_path / path))
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "main.cpp").write_text(GOOD)
    (folder / "part.h").write_text("")
    return folder


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    return toolchain.find()


def build_it(project: Path, tools, name="small") -> Path:
    return Path(build.build_library(str(project), ["main.cpp"], tools, name))


@pytest.fixture
def start(project, workspace, monkeypatch):
    """Starts a build in a process group of its own."""
    monkeypatch.setenv("PYTHONPATH", str(workspace))

    def run() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CODE, str(project)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    return run


@pytest.fixture
def half_built(project, start):
    """A build that has got as far as half of its first object."""
    (project.parent / "slow").touch()
    process = start()
    wait_for(lambda: (project.parent / "waits").exists() or process.poll() is not None)
    assert process.poll() is None
    return process


def test_the_folder_follows_everything_that_changes_the_result(project, tools, monkeypatch):
    def folder_of(tools) -> str:
        return build.build_folder(str(project), ["main.cpp"], tools)

    folders = [folder_of(tools)]
    for field in ("compiler", "compiler_version", "nvcc_version", "nvcc_host", "cuda_home"):
        folders.append(folder_of(tools._replace(**{field: "another"})))
    folders.append(folder_of(tools._replace(archs=("8.0",))))
    with monkeypatch.context() as patch:
        patch.setattr(build, "cxx_flags", lambda tools: ["-g"])
        folders.append(folder_of(tools))
    (project / "part.h").write_text("// a header that main.cpp may include\n")
    folders.append(folder_of(tools))
    (project / "part.h").rename(project / "renamed.h")
    folders.append(folder_of(tools))
    (project / "folder").mkdir()
    (project / "renamed.h").rename(project / "folder" / "renamed.h")
    folders.append(folder_of(tools))
    (project / "main.cpp").write_text(GOOD + "// changed\n")
    folders.append(folder_of(tools))
    monkeypatch.setattr(build.toolchain.torch, "__version__", "2.12.0+cpu")
    folders.append(folder_of(tools))
    monkeypatch.setattr(build.toolchain.sysconfig, "get_config_var", lambda name: "cpython-310")
    folders.append(folder_of(tools))
    assert len(set(folders)) == len(folders)
    assert folder_of(tools) == folders[-1]


def test_two_processes_build_once_and_an_upgraded_compiler_anew(project, start, monkeypatch):
    runs = [start(), start()]
    outputs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    library = outputs[0][0].strip()
    assert library == outputs[1][0].strip() and Path(library).is_file()
    # One call to compile and one to link.
    assert (project.parent / "calls").read_text() == "start\nend\n" * 2
    (project.parent / "version").write_text("1.1\n")
    assert build_it(project, toolchain.find(), "shared") != Path(library)
    assert (project.parent / "calls").read_text() == "start\nend\n" * 4
    # A finished build is loaded without a compiler.
    monkeypatch.setattr(build, "_compile", lambda *arguments: pytest.fail("compiled again"))
    build_it(project, toolchain.find(), "shared")


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
    # One of torch, as where a library meets another torch than it was compiled for.
    (project / "main.cpp").write_text(
        "#include <cstdint>\nnamespace at { void set_num_threads(int, int); }\n"
        'int64_t gone() asm("_ZN2at15get_num_threadsEi");\nint64_t x = gone();\n'
    )
    with pytest.raises(build.BuildError, match=r"at::get_num_threads\(int\) \(declared at .*ATen/Parallel.h:\d+\)"):
        build_it(project, tools, name="renamed")


def test_importing_compiles_nothing_and_imports_no_build_tools(python):
    done = python(
        "import sys, fused_attention; from fused_attention import build;"
        "print(build.is_loaded(), 'torch.utils.cpp_extension' in sys.modules)"
    )
    assert done.stdout == "False False\n"


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr(build, "_loaded", False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler: 'no-such-compiler' does not run"):
        build.load()


def test_missing_build_tools_are_named(project, tools, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "search_path", lambda: "/nowhere")
        with pytest.raises(build.BuildError, match=r"(?m)^.*Ninja is required.*$"):
            build_it(project, tools._replace(compiler="/usr/bin/c++"), name="bare")
    (tmp_path / "setuptools.py").write_text("raise ImportError(\"No module named 'setuptools'\", name='setuptools')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"does not import .*python -m pip install setuptools"):
        build_it(project, tools, name="bare")


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


def waits_for_a_lock(process: int) -> bool:
    """Whether it is in the kernel's list of locks as one that waits."""
    return any(f" {process} " in line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)


def test_compilers_that_outlive_their_builder_are_waited_for(project, start, half_built):
    half_built.kill()
    half_built.communicate()
    again = start()
    wait_for(lambda: waits_for_a_lock(again.pid) or again.poll() is not None)
    (project.parent / "slow").unlink()
    _, err = again.communicate()
    assert again.returncode == 0, err
    # Never two at once in the same folder.
    assert re.fullmatch(r"(start\nend\n){2,3}", (project.parent / "calls").read_text())


def test_a_build_killed_with_its_compilers_is_repaired(project, start, half_built):
    os.killpg(half_built.pid, signal.SIGKILL)
    half_built.communicate()
    (project.parent / "slow").unlink()
    halves = list((project.parent / "cache").glob("*/main.o"))
    assert [half.read_text() for half in halves] == ["half\n"]
    again = start()
    assert again.communicate()[1] == "" and again.returncode == 0


def in_namespace(script: str, project: Path, workspace: Path) -> subprocess.CompletedProcess[str]:
    """Runs a shell script that may mount: "$@" builds, $CACHE is the cache. Exit code 77: the machine cannot."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a mount namespace")
    cache_folder = project.parent / "cache"
    cache_folder.mkdir(exist_ok=True)
    variables = {**os.environ, "PYTHONPATH": str(workspace), "CACHE": str(cache_folder), "CXX": "c++"}
    run = [*namespace, "sh", "-c", script, "sh", sys.executable, "-c", CODE, str(project)]
    done = subprocess.run(run, env=variables, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("this machine mounts nothing in a user's namespace")
    assert done.returncode == 0, done.stderr
    return done


def test_a_full_disk_is_the_first_line_and_room_repairs_it(project, workspace):
    (project / "main.cpp").write_text("char big[400000] = {1};\n")
    script = """
    mount -t tmpfs -o size=128k tmpfs "$CACHE" || exit 77
    "$@" 2>"$HERE/error" && exit 1
    mount -o remount,size=16m tmpfs "$CACHE" && "$@"
    """
    in_namespace(script, project, workspace)
    error = (project.parent / "error").read_text().splitlines()
    first = next(line for line in error if line.startswith("fused_attention.build.BuildError: "))
    assert "No space left on device" in first


def test_a_finished_build_is_loaded_from_where_it_can_only_be_read(project, workspace):
    script = """
    "$@" && mount --bind "$CACHE" "$CACHE" && mount -o remount,bind,ro "$CACHE" || exit 77
    "$@" || exit 1
    echo "// another build" >> "$HERE/csrc/main.cpp"
    "$@" 2>"$HERE/error" && exit 1
    exit 0
    """
    done = in_namespace(script, project, workspace)
    first, second = done.stdout.splitlines()
    assert first == second
    last = (project.parent / "error").read_text().splitlines()[-1]
    cache_folder = project.parent / "cache"
    assert last == f"OSError: FUSED_ATTENTION_CACHE is {cache_folder}, which cannot be written (Read-only file system)"


def test_the_folder_of_builds_is_the_requested_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "torch"))
    monkeypatch.delenv("FUSED_ATTENTION_CACHE", raising=False)
    assert cache.root() == str(tmp_path / "torch")
    monkeypatch.setenv("FUSED_ATTENTION_CACHE", str(tmp_path / "ours"))
    assert cache.root() == str(tmp_path / "ours")
    monkeypatch.setenv("FUSED_ATTENTION_CACHE", "/proc/nowhere")
    with pytest.raises(OSError, match="FUSED_ATTENTION_CACHE is /proc/nowhere, which cannot be written"):
        cache.root()


def test_the_folder_of_builds_without_a_home(tmp_path, monkeypatch):
    for variable in ("FUSED_ATTENTION_CACHE", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    root = Path(cache.root())
    assert root.parent == tmp_path and root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o777)
    with pytest.raises(OSError, match="another user's or writable by others"):
        cache.root()
