"""The set-up script on made-up machines, where anything can be missing."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bare_machine import BACKEND, PYPROJECT, TOOLS, Machine
from tests.support.paths import ROOT
from tests.support.wheels import make_wheel

PYTHON = Path(sys.base_prefix) / "bin/python3"
# Stands for python3 where pip is not the subject: it makes environments with itself in them, and installs nothing.
QUICK_PYTHON = f"""\
case "$1 $2" in
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip") echo "$@" >>"$HOME/pip.log" ;;
    *) exec "{PYTHON}" "$@" ;;
esac
"""
APT_THAT_MAKES_A_COMPILER = """\
echo "$@" >>"$HOME/apt.log"
case "$*" in
    *" update") touch "$HOME/updated" ;;
    *" g++"*) [ -e "$HOME/updated" ] || exit 100
        printf '#!/bin/sh\\n' >"${0%/*}/g++" && chmod +x "${0%/*}/g++" ;;
esac
"""
KNOWN_AFTER_UPDATE = '[ -e "$HOME/updated" ] && echo "  Candidate: 1.0" || echo "  Candidate: (none)"'
KNOWN = 'echo "  Candidate: 1.0"'
STUBS = ("g++", "git", "aarch64-linux-gnu-g++", "qemu-aarch64", "mmdebstrap", "newuidmap", "docker-registry")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Has python3, mmdebstrap and a compiler; no engine answers at its DOCKER_HOST; apt-get can be added."""
    checkout, bin_dir = tmp_path / "my checkout", tmp_path / "bin"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/setup.sh", checkout / ".ci")
    (checkout / "pyproject.toml").write_text(PYPROJECT)
    (checkout / "backend.py").write_text(BACKEND)
    bin_dir.mkdir()
    for tool in (*TOOLS, "touch", "chmod", "cp"):
        (bin_dir / tool).symlink_to(shutil.which(tool) or pytest.fail(f"{tool} is missing"))
    made = Machine(checkout, bin_dir, {"PATH": str(bin_dir), "HOME": str(tmp_path), "PIP_NO_INDEX": "1"})
    made.env["DOCKER_HOST"] = f"unix://{tmp_path}/no-engine.sock"
    made.command("python3", QUICK_PYTHON)
    made.command("sudo", '[ "$1" != -n ] || shift; exec "$@"')
    made.command("uname", "echo x86_64")
    for name in (*STUBS, "rootlesskit", "zsh", "fish"):
        made.command(name, "exit 0")
    return made


@pytest.fixture
def answering(machine: Machine) -> Iterator[Machine]:
    """The machine, with something at its DOCKER_HOST that answers a ping as Docker Engine does."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/engine.sock")  # tmp_path can be too long for a socket
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(b"HTTP/1.0 200 OK\r\n\r\nOK")

        threading.Thread(target=serve, daemon=True).start()
        machine.env["DOCKER_HOST"] = f"unix://{listener.getsockname()}"
        yield machine


def apt_machine(machine: Machine, apt_get: str, apt_cache: str) -> Machine:
    (machine.bin / "g++").unlink()
    machine.command("apt-get", apt_get)
    machine.command("apt-cache", apt_cache)
    machine.command("dpkg", 'echo "dpkg $@" >>"$HOME/apt.log"')
    return machine


def test_dash_parses_it() -> None:
    subprocess.run([shutil.which("dash") or "sh", "-n", ROOT / ".ci/setup.sh"], check=True)


def test_wrong_usage_and_what_cannot_be_replaced(machine: Machine) -> None:
    for args in ((), ("everything",)):
        done = machine.setup(*args)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == "hint: sh .ci/setup.sh demo|test|test-fast|lint|attention"
    done = machine.setup("lint", PYTHON="/nowhere/python3")
    assert done.returncode == 3 and "PYTHON=/nowhere/python3 is not a Python 3.10 or newer" in done.stderr
    done = machine.setup("demo")
    assert done.returncode == 3 and f"no engine answers at DOCKER_HOST={machine.env['DOCKER_HOST']}" in done.stderr
    machine.command("python3", '[ "$1" = -V ] && echo "Python 3.8.10" && exit 0; exit 1')
    done = machine.setup("lint")
    assert done.returncode == 3 and "Python 3.10 or newer is needed, and here is Python 3.8.10" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_no_install_says_what_is_missing_and_changes_nothing(answering: Machine) -> None:
    machine = apt_machine(answering, 'echo "$@" >>"$HOME/apt.log"', "exit 0")
    (machine.bin / "mmdebstrap").unlink()
    done = machine.setup("test", REPROKIT_NO_INSTALL="1")
    assert done.returncode == 3
    missing, venv = done.stdout.splitlines()
    assert missing.startswith("setup: missing packages") and {"g++", "mmdebstrap"} <= set(missing.split())
    assert venv == "setup: missing: an up-to-date .venv for 'test'"
    assert not (machine.checkout / ".venv").exists() and not (machine.checkout.parent / "apt.log").exists()


def test_two_at_once_then_again_then_after_a_change(answering: Machine) -> None:
    both = [answering.start("demo"), answering.start("demo")]
    texts = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    outputs = "".join(out for out, _ in texts)
    assert outputs.count("installing the project") == 1 and outputs.count(".venv is up to date") == 1
    pip = "-m pip install -q --disable-pip-version-check -e .[import,results]\n"
    assert (answering.checkout.parent / "pip.log").read_text() == pip
    assert answering.setup("demo").stdout == "setup: .venv is up to date\n"
    assert answering.setup("demo", REPROKIT_NO_INSTALL="1").stdout == "setup: nothing is missing\n"
    with (answering.checkout / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    assert answering.setup("demo").stdout == "setup: installing the project with [import,results] into .venv\n"


@pytest.mark.slow
def test_an_interrupted_environment_is_mended_and_pip_is_shown_only_if_it_fails(machine: Machine) -> None:
    machine.command("python3", f'exec "{PYTHON}" "$@"')
    venv, backend, wheels = machine.checkout / ".venv", machine.checkout / "backend.py", machine.bin.parent / "wheels"
    subprocess.run([machine.bin / "python3", "-m", "venv", "--without-pip", venv], check=True)
    half = next(venv.glob("lib/python*/site-packages")) / "pip"
    half.mkdir()
    (half / "__main__.py").write_text("from pip._internal.cli.main import main\n")
    backend.write_text("raise SystemExit('the backend says no')")
    done = machine.setup("lint")
    assert done.returncode == 4 and not (venv / ".setup-lint").exists()
    assert "the backend says no" in done.stderr and "error: pip could not install the project" in done.stderr
    backend.write_text(BACKEND.replace("Version: 1\\n", "Version: 1\\nRequires-Dist: one\\n", 1))
    settings = {"PIP_FIND_LINKS": f"nowhere {wheels}"}
    done = machine.setup("lint", **settings)
    assert done.returncode == 4 and "'nowhere' is ignored" in done.stderr
    make_wheel(wheels, "one", "1")
    done = machine.setup("lint", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.setup("lint").stdout == "setup: .venv is up to date\n"


def test_lists_are_refreshed_only_when_a_package_is_unknown(answering: Machine) -> None:
    done = apt_machine(answering, APT_THAT_MAKES_A_COMPILER, KNOWN_AFTER_UPDATE).setup("test")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("setup: refreshing the package lists\nsetup: installing with apt-get: g++")
    assert (answering.bin / "g++").exists()


def test_stale_lists_are_refreshed_and_a_broken_dpkg_is_mended(answering: Machine) -> None:
    done = apt_machine(answering, APT_THAT_MAKES_A_COMPILER, KNOWN).setup("test")
    assert done.returncode == 0, done.stderr
    first, *mending, again = (answering.checkout.parent / "apt.log").read_text().splitlines()
    assert mending[0] == "dpkg --configure -a" and mending[1].endswith(" update") and again == first


def test_failing_apt_shows_its_last_lines(answering: Machine) -> None:
    done = apt_machine(answering, "for n in 1 2 3; do echo E: reason $n; done; exit 100", KNOWN).setup("test")
    assert done.returncode == 4
    assert "E: reason 3\nerror: apt-get update failed\nhint: " in done.stderr
    assert not (answering.checkout / ".venv/.setup-test").exists()


def test_other_distributions_are_told_what_is_needed(answering: Machine) -> None:
    (answering.bin / "g++").unlink()
    done = answering.setup("test")
    assert done.returncode == 3
    assert "missing here: g++" in done.stderr and "own package manager" in done.stderr
