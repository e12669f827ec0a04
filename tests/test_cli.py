"""The command line itself: help, spelling, exit codes, signals, and what is not imported."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from reprokit import __version__, cli, completion
from reprokit.errors import WorkFailed
from reprokit.explain.last import read_log
from reprokit.recipe import schema
from reprokit.verbs import GROUPS, OTHER_NAMES, VERBS, load_verb
from tests.support.paths import ROOT
from tests.support.processes import send_when_asleep
from tests.support.verbs import run_verb

REPROKIT = [sys.executable, "-m", "reprokit"]


def python(code: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False)


@pytest.fixture
def run(monkeypatch, capsys):
    """`run("list", "--json")`: exit code, standard output and standard error, in this process."""

    def words(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["reprokit", *args])
        code = cli._run()
        return code, *capsys.readouterr()

    return words


def commands() -> Iterator[tuple[str, Any]]:
    """Each verb, and each verb of a group such as `results list`, with its command."""
    for verb in VERBS:
        command = load_verb(verb)
        for name, each in getattr(command, "commands", {"": command}).items():
            yield f"{verb} {name}".rstrip(), each


def test_each_verb_has_its_line_of_the_table_and_two_examples_that_parse():
    assert {verb: load_verb(verb).help.splitlines()[0] for verb in VERBS} == VERBS
    for name, command in commands():
        lines = [line.strip() for line in (command.epilog or "").splitlines()]
        examples = lines[lines.index("Examples:") + 1 :]
        assert len(examples) == 2, name
        for example in examples:
            words = shlex.split(example.partition(" > ")[0])
            start = ["reprokit", *name.split()]
            assert words[: len(start)] == start
            command.make_context(name, words[len(start) :])  # raises where an option or a value is wrong


def test_the_help_groups_the_verbs_and_wraps_to_the_terminal(monkeypatch):
    def helped(*words: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        return CliRunner().invoke(cli.app, [*words, "--help"], terminal_width=columns).stdout

    assert CliRunner().invoke(cli.app, []).stdout == helped()
    sections = re.findall(r"^(\S[^:\n]*):\n((?:  .*\n?)+)", helped(), re.MULTILINE)
    shown = {title: re.findall(r"^  (\w+) ", text, re.MULTILINE) for title, text in sections if title != "Options"}
    assert shown == {title: list(verbs) for title, verbs in GROUPS.items()}
    assert "    reprokit bench fused-attention\n    reprokit bench taco:cpu" in helped("bench")
    for columns, least in ((60, 50), (80, 70), (150, 110)):
        for words in ((), ("bench",), ("results", "compare")):
            longest = max(map(len, helped(*words, columns=columns).splitlines()))
            assert longest <= columns and (words or longest >= least)


def test_wrong_usage_is_one_line_and_a_hint(run):
    see = "hint: see `reprokit completion --help`"
    publish = "hint: --publish (-p) names the port of the host"
    follow = "hint: options of a command in the container follow `--`: `reprokit run NAME -- ls -l`"
    for words, message, hint in (
        ("biuld", "error: unknown verb 'biuld'; did you mean build?", "hint: see `reprokit --help`"),
        ("list --colour", "error: No such option: --colour", "hint: see `reprokit list --help`"),
        ("run gnn ls -l", "error: No such option: -l", follow),
        ("run", "error: Missing argument 'NAME[:VARIANT]'.", "hint: see `reprokit run --help`"),
        ("completion", "error: Missing argument 'shell'. Choose from: bash, zsh, fish", see),
        ("completion tcsh", "error: Invalid value for 'shell': 'tcsh' is not one of 'bash', 'zsh', 'fish'.", see),
        ("run taco --port 8889", "error: No such option: --port", publish),
        ("notebook taco --port 8889", "error: No such option: --port", publish),
        *(
            (verb, f"error: unknown verb '{verb}'", f"hint: `reprokit {ours}` does that")
            for verb, ours in OTHER_NAMES.items()
        ),
    ):
        code, out, err = run(*words.split())
        assert (code, out) == (2, "") and err.splitlines()[1:] == [hint], words
        assert err.startswith(message)
    assert {name.split()[0] for name in OTHER_NAMES.values()} <= {*VERBS, "--version"}


def test_a_bug_leaves_a_log_without_secrets(run, monkeypatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")

    def fail() -> None:
        raise ZeroDivisionError("at https://me:pw@host.example/x with hunter2hunter2")

    monkeypatch.setattr(schema, "schema", fail)
    code, _, err = run("show", "--schema")
    (log,) = tmp_path.glob("state/failures/bug-*.log")
    assert code == 1 and f"hint: report it with the log {log};" in err
    text = log.read_text()
    parts = (f"reprokit {__version__}", "verb show", "engine: no Docker Engine", "in fail")
    assert [part for part in parts if part not in text] == []
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


def test_version_names_the_commit_of_the_checkout(run):
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    suffix = rf" \({commit}(-dirty)?\)" if commit else ""  # an unpacked sdist has no git
    assert re.fullmatch(rf"reprokit {re.escape(__version__)}{suffix}\n", run("--version")[1])


def test_help_imports_nothing_heavy():
    code = """
import contextlib, sys
import typer
from reprokit import cli
with contextlib.suppress(typer.Exit):
    typer.main.get_command(cli.app).make_context("reprokit", ["--help"])
print([m for m in ("docker", "pydantic", "jinja2", "yaml", "requests") if m in sys.modules])
"""
    assert python(code).stdout.splitlines()[-1] == "[]"


def test_a_traceback_only_with_debug(tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/x.yaml").write_text("name: [")
    plain = run_verb("show", "x", cwd=tmp_path)
    assert plain.returncode == 2
    assert plain.stderr.startswith("error: not valid YAML") and "Traceback" not in plain.stderr
    assert "Traceback" in run_verb("--debug", "show", "x", cwd=tmp_path).stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_may_be_closed(closed: str):
    for verb, code in (("list", 0), ("biuld", 2)):
        command = ["sh", "-c", f'"$@" {closed}', "sh", *REPROKIT, verb]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "bug" in done.stderr) == (code, False)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["list", "--help", "--version"])
def test_output_onto_a_full_disk_is_no_fault_of_ours(verb):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*REPROKIT, verb], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    error, hint = done.stderr.splitlines()
    assert (done.returncode, error) == (3, "error: the disk is full") and hint.startswith("hint: free space")


@pytest.mark.slow
def test_streams_that_take_nothing():
    """The exit code tells; a pipe that was closed is no error."""
    for words, code in (("list", 3), ("list --no-such", 2)):
        with Path("/dev/full").open("w") as full:
            assert subprocess.run([*REPROKIT, *words.split()], stdout=full, stderr=full, check=False).returncode == code
    pipe = f"{shlex.quote(sys.executable)} -m reprokit show --schema | head -c 10"
    assert subprocess.run(pipe, shell=True, capture_output=True, text=True, check=False).stderr == ""


def test_completion_offers_recipes_then_variants_and_benchmarks():
    assert "fused-attention" in completion.targets("fus")
    assert "fused-attention:cpu" in completion.targets("fused-attention:")
    assert completion.targets("taco:") == ["taco:cpu", "taco:cuda-debian"]
    assert completion.targets("taco:a") == ["taco:as-published"]  # historic: offered once it is begun
    assert completion.targets("nothing-of-that-name:") == []
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
            _, err = process.communicate(timeout=120)
    assert (process.returncode, err.splitlines(keepends=True)[-1]) == (130, message)


IGNORED = """
import atexit, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from reprokit import cli
from reprokit.__main__ import main
run = cli._run
cli._run = lambda: signal.raise_signal(signal.SIGINT) or run()
atexit.register(signal.raise_signal, signal.SIGINT)
main()
"""
WHILE_PRINTING = """
import signal
from reprokit import cli
cli._debug_raise = lambda: signal.raise_signal(signal.SIGINT)
cli.main()
"""
AT_THE_END = """
import atexit, signal
atexit.register(signal.raise_signal, signal.SIGINT)
from reprokit.__main__ import main
main()
"""


@pytest.mark.slow
def test_ctrl_c_before_and_after_the_work_leaves_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    during_import = python("from reprokit.__main__ import main; main()", "list", PYTHONPATH=f"{tmp_path}:{ROOT}")
    for done in (during_import, python(AT_THE_END, "list")):
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")  # 130 in a shell
    done = python(WHILE_PRINTING, "show", "/absent")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    done = python(IGNORED, "list")  # what the starter ignores stays ignored
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("variable", "value", "verb", "code", "message"),
    [
        ("CONFIG", "/nowhere", "config", 2, "error: REPROKIT_CONFIG names no file (/nowhere)"),
        ("RECIPES", "/nowhere", "list", 2, "error: REPROKIT_RECIPES names no folder (/nowhere)"),
        (
            "HOME",
            "/dev/null/x",
            "store ls",
            3,
            "error: reprokit cannot use its own folder: Not a directory (/dev/null/",
        ),
    ],
)
def test_a_variable_that_names_nothing_is_an_error(run, monkeypatch, variable, value, verb, code, message):
    monkeypatch.setenv(f"REPROKIT_{variable}", value)
    returncode, _, err = run(*verb.split())
    assert (returncode, err.startswith(message)) == (code, True), err
    assert "\nhint: " in err
