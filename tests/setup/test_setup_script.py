"""The set-up script on made-up machines, where anything can be missing."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import ROOT
from tests.support.wheels import make_wheel

if TYPE_CHECKING:
    from tests.support.bare_machine import Machine


APT_THAT_MAKES_A_COMPILER = """\
echo "$@" >>"$HOME/apt.log"
case "$*" in
    *" update") touch "$HOME/updated" ;;
    *" g++"*) [ -e "$HOME/updated" ] || exit 100
        printf '#!/bin/sh\\n' >"${0%/*}/g++" && chmod +x "${0%/*}/g++" ;;
esac
"""
KNOWN_AFTER_UPDATE = '[ -e "$HOME/updated" ] && echo "  Candidate: 1.0" || echo "  Candidate: (none)"'


def apt_machine(machine: Machine, apt_get: str, apt_cache: str) -> Machine:
    (machine.bin / "g++").unlink()
    for tool in ("touch", "chmod"):
        (machine.bin / tool).symlink_to(shutil.which(tool) or "")
    machine.command("apt-get", apt_get)
    machine.command("apt-cache", apt_cache)
    machine.command("dpkg", 'echo "dpkg $@" >>"$HOME/apt.log"')
    return machine


def test_dash_parses_it() -> None:
    shell = shutil.which("dash") or "sh"
    subprocess.run([shell, "-n", ROOT / ".ci/setup.sh"], check=True)


@pytest.mark.parametrize("args", [(), ("everything",)])
def test_unknown_target_is_wrong_usage(machine: Machine, args: tuple[str, ...]) -> None:
    done = machine.setup(*args)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "hint: sh .ci/setup.sh demo|test|test-fast|lint|attention"


def test_old_python_is_named(machine: Machine) -> None:
    machine.command("python3", '[ "$1" = -V ] && echo "Python 3.8.10" && exit 0; exit 1')
    done = machine.setup("lint")
    assert done.returncode == 3
    assert "Python 3.10 or newer is needed, and here is Python 3.8.10" in done.stderr


def test_chosen_python_is_not_replaced_by_another(machine: Machine) -> None:
    done = machine.setup("lint", PYTHON="/nowhere/python3")
    assert done.returncode == 3
    assert "PYTHON=/nowhere/python3 is not a Python 3.10 or newer" in done.stderr


def test_engine_the_user_named_is_not_replaced(machine: Machine) -> None:
    done = machine.setup("demo")
    assert done.returncode == 3
    assert f"no engine answers at DOCKER_HOST={machine.env['DOCKER_HOST']}" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_no_install_says_what_is_missing_and_changes_nothing(machine: Machine, engine: str) -> None:
    apt_machine(machine, 'echo "$@" >>"$HOME/apt.log"', "exit 0")
    (machine.bin / "mmdebstrap").unlink()
    done = machine.setup("test", DOCKER_HOST=engine, REPROKIT_NO_INSTALL="1")
    assert done.returncode == 3
    missing, venv = done.stdout.splitlines()
    assert missing.startswith("setup: missing packages") and {"g++", "mmdebstrap"} <= set(missing.split())
    assert venv == "setup: missing: an up-to-date .venv for 'test'"
    assert not (machine.checkout / ".venv").exists() and not (machine.checkout.parent / "apt.log").exists()


def test_two_at_once_then_again_then_after_a_change(machine: Machine, engine: str) -> None:
    machine.env["DOCKER_HOST"] = engine
    both = [machine.start("demo"), machine.start("demo")]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    outputs = "".join(out for out, _ in said)
    assert outputs.count("installing the project") == 1 and outputs.count(".venv is up to date") == 1
    assert machine.setup("demo").stdout == "setup: .venv is up to date\n"
    assert machine.setup("demo", REPROKIT_NO_INSTALL="1").stdout == "setup: nothing is missing\n"
    with (machine.checkout / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    assert machine.setup("demo").stdout == "setup: installing the project with [results] into .venv\n"


@pytest.mark.slow
def test_an_environment_whose_making_was_interrupted_is_mended(machine: Machine) -> None:
    venv = machine.checkout / ".venv"
    subprocess.run([machine.bin / "python3", "-m", "venv", "--without-pip", venv], check=True)
    half = next(venv.glob("lib/python*/site-packages")) / "pip"
    half.mkdir()
    (half / "__main__.py").write_text("from pip._internal.cli.main import main\n")
    done = machine.setup("lint")
    assert done.returncode == 0, done.stderr
    assert machine.setup("lint").stdout == "setup: .venv is up to date\n"


@pytest.mark.slow
def test_what_pip_warns_of_is_shown_only_if_it_fails(machine: Machine) -> None:
    backend = machine.checkout / "backend.py"
    backend.write_text(backend.read_text().replace("Version: 1\\n", "Version: 1\\nRequires-Dist: one\\n", 1))
    wheels = machine.checkout.parent / "wheels"
    settings = {"PIP_FIND_LINKS": f"nowhere {wheels}"}
    done = machine.setup("lint", **settings)
    assert done.returncode == 4 and "'nowhere' is ignored" in done.stderr
    make_wheel(wheels, "one", "1")
    done = machine.setup("lint", **settings)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_failed_project_install_is_a_source_failure_and_leaves_no_stamp(machine: Machine) -> None:
    (machine.checkout / "backend.py").write_text("raise SystemExit('the backend says no')")
    done = machine.setup("lint")
    assert done.returncode == 4
    assert "the backend says no" in done.stderr and "error: pip could not install the project" in done.stderr
    assert not (machine.checkout / ".venv/.setup-lint").exists()


def test_lists_are_refreshed_only_when_a_package_is_unknown(machine: Machine, engine: str) -> None:
    apt_machine(machine, APT_THAT_MAKES_A_COMPILER, KNOWN_AFTER_UPDATE)
    done = machine.setup("test", DOCKER_HOST=engine)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("setup: refreshing the package lists\nsetup: installing with apt-get: g++")
    assert (machine.bin / "g++").exists()


def test_stale_lists_are_refreshed_and_a_broken_dpkg_is_mended(machine: Machine, engine: str) -> None:
    apt_machine(machine, APT_THAT_MAKES_A_COMPILER, 'echo "  Candidate: 1.0"')
    done = machine.setup("test", DOCKER_HOST=engine)
    assert done.returncode == 0, done.stderr
    first, *mending, again = (machine.checkout.parent / "apt.log").read_text().splitlines()
    assert mending[0] == "dpkg --configure -a" and mending[1].endswith(" update") and again == first


def test_failing_apt_shows_its_last_lines(machine: Machine, engine: str) -> None:
    said = "for n in 1 2 3; do echo E: reason $n; done; exit 100"
    apt_machine(machine, said, 'echo "  Candidate: 1.0"')
    done = machine.setup("test", DOCKER_HOST=engine)
    assert done.returncode == 4
    assert "E: reason 3\nerror: apt-get update failed\nhint: " in done.stderr
    assert not (machine.checkout / ".venv/.setup-test").exists()


def test_other_distributions_are_told_what_is_needed(machine: Machine, engine: str) -> None:
    (machine.bin / "g++").unlink()
    done = machine.setup("test", DOCKER_HOST=engine)
    assert done.returncode == 3
    assert "missing here: g++" in done.stderr and "own package manager" in done.stderr
