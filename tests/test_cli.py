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
from types import SimpleNamespace

import pytest

from reprokit import __version__, cli
from reprokit.errors import WorkFailed
from reprokit.explain.last import read_log
from reprokit.recipe import schema
from reprokit.verbs import OTHER_NAMES, VERBS
from tests.support.paths import ROOT
from tests.support.processes import send_when_asleep

REPROKIT = [sys.executable, "-m", "reprokit"]


def reprokit(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REPROKIT, *args], capture_output=True, text=True, env={**os.environ, **env}, timeout=120, check=False
    )


def test_no_verb_prints_help_and_is_no_error():
    done = reprokit()
    assert done.returncode == 0
    for verb, line in VERBS.items():
        assert verb in done.stdout and line.split(",")[0][:30] in done.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.slow
def test_a_standard_stream_may_be_closed(closed: str):
    command = ["sh", "-c", f'"$@" {closed}', "sh", *REPROKIT]
    for verb, code in (("blocks", 0), ("biuld", 2)):
        done = subprocess.run([*command, verb], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, "bug" in done.stderr) == (code, False)


def test_a_misspelt_verb_names_the_right_one():
    done = reprokit("biuld")
    assert done.returncode == 2
    assert done.stderr == "error: unknown verb 'biuld'; did you mean build?\nhint: see `reprokit --help`\n"
    assert done.stdout == ""


@pytest.mark.parametrize(("verb", "right"), OTHER_NAMES.items())
def test_verbs_of_other_programs_lead_to_ours(monkeypatch, capsys, verb: str, right: str):
    monkeypatch.setattr(sys, "argv", ["reprokit", verb])
    assert cli._run() == 2
    assert f"hint: `reprokit {right}` does that" in capsys.readouterr().err
    assert right in (*VERBS, "--version")


def test_a_bug_leaves_a_log_without_secrets(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setattr(sys, "argv", ["reprokit", "schema"])

    def fail() -> None:
        raise ZeroDivisionError("at https://me:pw@host.example/x with hunter2hunter2")

    monkeypatch.setattr(schema, "schema", fail)
    assert cli._run() == 1
    shown = capsys.readouterr().err
    (log,) = tmp_path.glob("state/failures/bug-*.log")
    assert f"hint: report it with the log {log};" in shown
    text = log.read_text()
    assert all(
        part in text for part in (f"reprokit {__version__}", "verb schema", "engine: no Docker Engine", "in fail")
    )
    assert "hunter2" not in text and "me:pw" not in text
    assert "ZeroDivisionError" in read_log()[0].decode()


def test_an_error_ends_with_its_explanation(monkeypatch, capsys):
    error = WorkFailed("it failed", "gnn:cpu", "look at it")
    error.explanation = ("cause: no \x1b[2Jnvcc", "remedy: install it")

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "get_command", fail)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    shown = "error: it failed (gnn:cpu)\nhint: look at it\ncause: no \\x1b[2Jnvcc\nremedy: install it\n"
    assert capsys.readouterr().err == shown


def test_an_unknown_option_is_wrong_usage():
    done = reprokit("list", "--colour")
    assert done.returncode == 2
    assert done.stderr.startswith("error: No such option")


@pytest.mark.slow
def test_an_option_of_the_command_in_the_container_is_said_to_follow_two_dashes():
    done = reprokit("run", "gnn", "ls", "-l")
    assert done.stderr == (
        "error: No such option: -l\n"
        "hint: options of a command in the container follow `--`: `reprokit run NAME -- ls -l`\n"
    )
    assert "hint: see `reprokit run --help`" in reprokit("run").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: Missing argument 'shell'. Choose from: bash, zsh, fish"),
        (["tcsh"], "error: Invalid value for 'shell': 'tcsh' is not one of 'bash', 'zsh', 'fish'."),
    ],
)
def test_a_wrong_choice_is_one_line_in_the_words_of_the_user(arguments, message):
    assert reprokit("completion", *arguments).stderr.splitlines() == [message, "hint: see `reprokit completion --help`"]


def test_version_names_the_commit_of_the_checkout():
    from reprokit import __version__

    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    named = rf" \({commit}(-dirty)?\)" if commit else ""  # an unpacked sdist has no git
    assert re.fullmatch(rf"reprokit {re.escape(__version__)}{named}\n", reprokit("--version").stdout)


def test_help_imports_nothing_heavy():
    code = """
import contextlib, sys
import typer
from reprokit import cli
with contextlib.suppress(typer.Exit):
    typer.main.get_command(cli.app).make_context("reprokit", ["--help"])
print([m for m in ("docker", "pydantic", "jinja2", "yaml", "requests") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
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


@pytest.mark.parametrize("verb", [("list",), ("list", "--json"), ("schema",), ("--help",), ("--version",)])
@pytest.mark.slow
def test_output_onto_a_full_disk_is_no_fault_of_ours(verb):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*REPROKIT, *verb], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = done.stderr.splitlines()
    assert (done.returncode, said[0], len(said)) == (3, "error: the disk is full", 2)
    assert said[1].startswith("hint: free space")


@pytest.mark.parametrize(("words", "code"), [(("list",), 3), (("list", "--no-such"), 2), (("show", "x.yaml"), 2)])
@pytest.mark.slow
def test_where_nothing_can_be_said_the_exit_code_tells(words, code):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*REPROKIT, *words], stdout=full, stderr=full, check=False)
    assert done.returncode == code


def test_completion_offers_recipes_then_variants():
    from reprokit import completion

    assert "fused-attention" in completion.targets("fus")
    assert "fused-attention:cpu" in completion.targets("fused-attention:")
    assert completion.targets("taco:") == ["taco:cpu", "taco:cuda-debian"]
    assert completion.targets("taco:a") == ["taco:as-published"]  # historic: offered once it is begun
    assert completion.targets("nothing-of-that-name:") == []


@pytest.mark.parametrize("verb", ["notebook", "run"])
def test_a_port_is_given_with_publish(verb):
    done = reprokit(verb, "taco", "--port", "8889")
    assert (done.returncode, done.stderr.splitlines()[1]) == (2, "hint: --publish (-p) names the port of the host")


def test_completion_offers_the_benchmarks_of_the_variant():
    from reprokit import completion

    assert completion.benchmarks(SimpleNamespace(params={"name": "featgraph:cpu"}), "sp") == ["spmm", "spmm-reddit"]
    assert completion.benchmarks(SimpleNamespace(params={"name": "no-such-recipe"}), "") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "message"),
    [(["ps"], "interrupted\n"), (["build", "taco"], "interrupted: the same command continues\n")],
)
def test_ctrl_c_says_so_and_exits_130(tmp_path, verb, message):
    # An engine that never answers holds the verb until the signal comes.
    with socket.create_server(("127.0.0.1", 0)) as engine:
        engine.settimeout(120)
        environment = os.environ | {"DOCKER_HOST": f"tcp://127.0.0.1:{engine.getsockname()[1]}"}
        process = subprocess.Popen([*REPROKIT, *verb], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        with engine.accept()[0]:
            send_when_asleep(process.pid)
            _, said = process.communicate(timeout=120)
    assert (process.returncode, said.splitlines(keepends=True)[-1]) == (130, message)


def test_ctrl_c_before_and_after_the_work_leaves_no_traceback(tmp_path):
    interrupt = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    (tmp_path / "typer.py").write_text(interrupt)  # imported before a verb is known
    during_import = reprokit("list", PYTHONPATH=f"{tmp_path}:{ROOT}")
    late = "import atexit, signal\natexit.register(signal.raise_signal, signal.SIGINT)\n"
    script = f"{late}from reprokit.__main__ import main\nmain()"
    at_the_end = subprocess.run([sys.executable, "-c", script, "list"], capture_output=True, text=True, check=False)
    for done in (during_import, at_the_end):
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")  # 130 in a shell


@pytest.mark.slow
def test_ctrl_c_that_the_starter_ignores_stays_ignored():
    script = """
import atexit, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from reprokit import cli
from reprokit.__main__ import main
run = cli._run
cli._run = lambda: signal.raise_signal(signal.SIGINT) or run()
atexit.register(signal.raise_signal, signal.SIGINT)
main()
"""
    done = subprocess.run([sys.executable, "-c", script, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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


@pytest.mark.parametrize(
    ("variable", "verb", "code", "message"),
    [
        ("REPROKIT_CONFIG", "config", 2, "error: REPROKIT_CONFIG names no file (/nowhere)"),
        ("REPROKIT_RECIPES", "list", 2, "error: REPROKIT_RECIPES names no folder (/nowhere)"),
        ("REPROKIT_HOME", "store ls", 3, "error: reprokit cannot use its own folder: Not a directory (/dev/null/"),
    ],
)
@pytest.mark.slow
def test_a_variable_that_names_nothing_is_an_error(variable, verb, code, message):
    done = reprokit(*verb.split(), **{variable: "/dev/null/x" if code == 3 else "/nowhere"})
    assert (done.returncode, done.stderr.startswith(message)) == (code, True), done.stderr
    assert "\nhint: " in done.stderr
