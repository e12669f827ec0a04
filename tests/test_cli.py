"""The command line itself: help, spelling, exit codes, and what is not imported."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit import cli
from tests.support.paths import ROOT

REPROKIT = [sys.executable, "-m", "reprokit"]


def reprokit(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REPROKIT, *args], capture_output=True, text=True, env={**os.environ, **env}, timeout=60, check=False
    )


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_of_the_table_is_the_help_of_the_command(verb):
    command = cli.load_verb(verb)
    assert command.help.splitlines()[0] == cli.VERBS[verb]


def test_no_verb_prints_help_and_is_no_error():
    done = reprokit()
    assert done.returncode == 0
    for verb, line in cli.VERBS.items():
        assert verb in done.stdout and line.split(",")[0][:30] in done.stdout


def test_a_misspelt_verb_names_the_right_one():
    done = reprokit("biuld")
    assert done.returncode == 2
    assert done.stderr == "error: unknown verb 'biuld'; did you mean build?\nhint: see `reprokit --help`\n"
    assert done.stdout == ""


def test_an_unknown_option_is_wrong_usage():
    done = reprokit("list", "--colour")
    assert done.returncode == 2
    assert done.stderr.startswith("error: No such option")


def test_version_names_the_commit_of_the_checkout():
    from reprokit import __version__

    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    named = rf" \({commit}(-dirty)?\)" if commit else ""  # an unpacked sdist has no git
    assert re.fullmatch(rf"reprokit {re.escape(__version__)}{named}\n", reprokit("--version").stdout)


def test_help_imports_nothing_heavy():
    code = """
import sys
from pathlib import Path
from reprokit import cli
cli.app(["--help"], standalone_mode=False)
print([m for m in ("docker", "pydantic", "jinja2", "yaml", "requests") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_traceback_only_with_debug(tmp_path, monkeypatch):
    broken = tmp_path / "recipes"
    broken.mkdir()
    (broken / "x.yaml").write_text("name: [")
    monkeypatch.chdir(tmp_path)
    plain = reprokit("show", "x")
    assert plain.returncode == 2
    assert plain.stderr.startswith("error: not valid YAML") and "Traceback" not in plain.stderr
    assert "Traceback" in reprokit("--debug", "show", "x").stderr


def test_output_into_a_closed_pipe_is_no_error():
    pipe = f"{shlex.quote(sys.executable)} -m reprokit schema | head -c 10"
    done = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_output_onto_a_full_disk_is_no_fault_of_ours():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*REPROKIT, "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("error: the disk is full\nhint: free space")


def test_completion_offers_recipes_then_variants():
    from reprokit import completion

    assert "fused-attention" in completion.targets("fus")
    assert "fused-attention:cpu" in completion.targets("fused-attention:")
    assert completion.targets("taco:") == ["taco:cpu", "taco:cuda-debian"]
    assert completion.targets("taco:a") == ["taco:as-published"]  # historic: offered once it is begun
    assert completion.targets("nothing-of-that-name:") == []


def test_ctrl_c_says_so_and_exits_130(tmp_path):
    # An engine that never answers holds the verb until the signal comes.
    with socket.create_server(("127.0.0.1", 0)) as engine:
        engine.settimeout(30)
        environment = os.environ | {"DOCKER_HOST": f"tcp://127.0.0.1:{engine.getsockname()[1]}"}
        verb = subprocess.Popen([*REPROKIT, "ps"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        with engine.accept()[0]:
            verb.send_signal(signal.SIGINT)
            _, said = verb.communicate(timeout=30)
    assert (verb.returncode, said) == (130, "interrupted\n")


def test_ctrl_c_while_an_error_is_told_says_so_too():
    script = """
import signal
from reprokit import cli
cli._debug_raise = lambda: signal.raise_signal(signal.SIGINT)
cli.main()
"""
    told = subprocess.run(
        [sys.executable, "-c", script, "show", "/absent"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (130, "interrupted\n")
