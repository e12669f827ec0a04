"""Builds that are killed, that fill the disk, and that meet a folder they may only read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.compiler]

CODE = """
import sys
from fused_attention import build, toolchain
build.build_library(sys.argv[1], ["main.cpp"], toolchain.find(), "library")
print("built")
"""

# Says when it compiles; while the file `slow` is there, it leaves half an object and waits.
COMPILER = """#!/bin/sh
[ "$1" = --version ] && echo 1.0 && exit
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
def project(tmp_path):
    """A source folder, and beside it a compiler and a cache."""
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc/main.cpp").write_text('extern "C" int answer() { return 42; }\n')
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    return tmp_path


@pytest.fixture
def environment(project, workspace):
    variables = {"FUSED_ATTENTION_CACHE": project / "cache", "HERE": project, "CXX": project / "compiler"}
    return {**os.environ, "PYTHONPATH": str(workspace), **{name: str(path) for name, path in variables.items()}}


def command(project: Path) -> list[str]:
    return [sys.executable, "-c", CODE, str(project / "csrc")]


def start(project: Path, environment) -> subprocess.Popen[str]:
    """A build that has got as far as half of its first object."""
    (project / "slow").touch()
    build = subprocess.Popen(command(project), env=environment, start_new_session=True, text=True)
    wait_for(lambda: (project / "waits").exists() or build.poll() is not None)
    assert build.poll() is None
    return build


def waits_for_a_lock(process: int) -> bool:
    """Whether it is in the kernel's list of locks as one that waits."""
    return any(f" {process} " in line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)


def test_compilers_that_outlive_their_builder_are_waited_for(project, environment):
    build = start(project, environment)
    build.kill()
    build.wait()
    pipe = subprocess.PIPE
    with subprocess.Popen(command(project), env=environment, stdout=pipe, stderr=pipe, text=True) as again:
        wait_for(lambda: waits_for_a_lock(again.pid) or again.poll() is not None)
        (project / "slow").unlink()
        out, err = again.communicate()
    assert out == "built\n", err
    # Never two at once in the same folder.
    assert re.fullmatch(r"(start\nend\n){2,3}", (project / "calls").read_text())


def test_a_build_killed_with_its_compilers_is_repaired(project, environment):
    build = start(project, environment)
    os.killpg(build.pid, signal.SIGKILL)
    build.wait()
    (project / "slow").unlink()
    halves = list((project / "cache").glob("*/main.o"))
    assert [half.read_text() for half in halves] == ["half\n"]
    done = subprocess.run(command(project), env=environment, capture_output=True, text=True)
    assert done.stdout == "built\n", done.stderr


def in_namespace(script: str, project: Path, environment) -> subprocess.CompletedProcess[str]:
    """Runs a shell script that may mount: "$@" builds, $CACHE is the cache."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a mount namespace")
    variables = {**environment, "CACHE": environment["FUSED_ATTENTION_CACHE"], "CXX": "c++"}
    Path(variables["CACHE"]).mkdir(exist_ok=True)
    run = [*namespace, "sh", "-c", script, "sh", *command(project)]
    return subprocess.run(run, env=variables, capture_output=True, text=True)


def test_a_full_disk_is_the_first_line_and_room_repairs_it(project, environment):
    (project / "csrc/main.cpp").write_text("char big[400000] = {1};\n")
    script = """
    mount -t tmpfs -o size=128k tmpfs "$CACHE" || exit 77
    "$@" 2>"$HERE/error" && exit 1
    mount -o remount,size=16m tmpfs "$CACHE" && "$@"
    """
    done = in_namespace(script, project, environment)
    if done.returncode == 77:
        pytest.skip("this machine mounts no tmpfs in a user's namespace")
    assert done.stdout == "built\n", done.stderr
    error = (project / "error").read_text().splitlines()
    first = next(line for line in error if line.startswith("fused_attention.build.BuildError: "))
    assert "No space left on device" in first


def test_a_finished_build_is_loaded_from_where_it_can_only_be_read(project, environment):
    script = """
    "$@" && mount --bind "$CACHE" "$CACHE" && mount -o remount,bind,ro "$CACHE" || exit 77
    "$@" || exit 1
    echo "// another build" >> "$HERE/csrc/main.cpp"
    "$@" 2>"$HERE/error" && exit 1
    exit 0
    """
    done = in_namespace(script, project, environment)
    if done.returncode == 77:
        pytest.skip("this machine binds no mounts in a user's namespace")
    assert done.returncode == 0 and done.stdout == "built\nbuilt\n", done.stderr
    last = (project / "error").read_text().splitlines()[-1]
    cache = environment["FUSED_ATTENTION_CACHE"]
    assert last == f"OSError: FUSED_ATTENTION_CACHE is {cache}, which cannot be written (Read-only file system)"
