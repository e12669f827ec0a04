"""Commands in a container: what they get, what comes back, what a failure reports; none outlives its caller."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from reprokit.container import names
from reprokit.container.evidence import Evidence
from reprokit.container.execute import execute, refusal
from reprokit.container.lifecycle import ensure_running
from reprokit.container.settings import ContainerSettings, Port, to_label
from reprokit.engine import ContainerInfo, Engine
from reprokit.errors import WorkFailed
from reprokit.explain.judge import explain
from reprokit.host.kills import KernelWatch
from tests.support.processes import send_when_asleep
from tests.support.waiting import wait_for


def test_output_and_exit_code(engine, made, monkeypatch, call):
    name = ensure_running(engine, made)
    heard: list[tuple[str, str]] = []
    done = execute(
        engine,
        name,
        ["sh", "-c", 'printf "%s" "$A é"; pwd; id -u; echo err >&2; exit 7'],
        env={"A": "b c"},
        workdir="/tmp",
        user="65534",
        on_output=lambda stream, text: heard.append((stream, text)),
    )
    assert (done.exit_code, done.stdout, done.stderr) == (7, "b c é/tmp\n65534\n", "err\n")
    assert "".join(text for stream, text in heard if stream == "stderr") == "err\n"
    assert execute(engine, name, ["cat"]).exit_code == 0
    assert execute(engine, name, ["sh", "-c", "kill -9 $$"]).exit_code == 137
    assert execute(engine, name, ["printf", "\\377a"]).stdout == "\ufffda"
    # The first frame is never lost.
    assert [execute(engine, name, ["echo", "hi"], logged=False).stdout for _ in range(30)] == ["hi\n"] * 30
    much = ["sh", "-c", "head -c 16000000 /dev/zero | tr '\\0' x"]
    assert len(execute(engine, name, much, logged=False).stdout) == 16_000_000
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", str(1 << 20))
    with pytest.raises(WorkFailed, match="wrote more than 1 MiB"):
        execute(engine, name, much, logged=False)
    assert call("run", made.recipe.name, "--", "wc", "-c", input="abc\n" * 100_000).stdout == "400000\n"


def test_a_command_that_runs_out_of_time_is_ended(engine, made, sh):
    name = ensure_running(engine, made)
    done = execute(engine, name, ["sh", "-c", "echo begun; sleep 4321"], timeout=15)
    assert (done.timed_out, done.exit_code, done.stdout, done.facts) == (True, 124, "begun\n", ())
    assert "4321" not in sh(name, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep [4]321' || true")
    done = execute(engine, name, ["sh", "-c", "exit 124"], timeout=200)
    assert (done.timed_out, done.exit_code) == (False, 124)


def test_what_cannot_be_started(engine, made, call):
    name = ensure_running(engine, made)
    for argv, code in (("nope", 127), ("/nope/x", 127), ("/etc/passwd", 126), ("/tmp", 126)):
        done = execute(engine, name, [argv])
        assert (done.exit_code, done.stdout) == (code, "")
        assert done.stderr
        run = call("run", made.recipe.name, "--", argv)
        assert (run.returncode, run.stdout) == (code, "")
        assert run.stderr.splitlines()[-1].startswith("error: cannot run it")
    # A command's own 126 is left alone.
    assert refusal(126, "OCI runtime: mine") is None
    assert refusal(1, "OCI runtime exec failed: exec failed: x: unknown") is None


# What programs do to outlive an interrupt: ignore it, ignore SIGTERM too, leave the session, clear the environment.
STUBBORN = """
trap '' INT TERM
setsid sleep 305 &
sh -c 'trap "" INT; sleep 306' &
env -i sleep 307 &
sleep 308 &
trap 'echo interrupted' INT
trap 'echo terminated' TERM
echo up
while :; do wait; done
"""


def _left(engine, name):
    script = "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p 2>/dev/null | grep '^sleep 30'; done; true"
    return execute(engine, name, ["sh", "-c", script], logged=False).stdout


@pytest.fixture
def start(made, command):
    """`start(*argv)` begins `reprokit run`, whose command has printed `up` by then."""

    def run(*argv: str) -> subprocess.Popen[bytes]:
        words, pipe = command("run", made.recipe.name, "--", *argv), subprocess.PIPE
        caller = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.DEVNULL)
        assert caller.stdout.readline() == b"up\n"
        return caller

    return run


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGHUP, 129),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
    ],
)
def test_an_end_from_outside_leaves_nothing_running(engine, made, start, number, code):
    name = ensure_running(engine, made)
    caller = start("sh", "-c", "sleep 304 & echo up; sleep 303")
    wait_for(lambda: sorted(_left(engine, name).split()) == ["303", "304", "sleep", "sleep"])
    send_when_asleep(caller.pid, number)
    assert caller.wait(120) == code
    assert _left(engine, name) == ""


def test_the_stubborn_end_too_and_a_second_interrupt_is_quick(engine, made, start):
    name = ensure_running(engine, made)
    caller = start("sh", "-c", STUBBORN)
    wait_for(lambda: {f"sleep {number} " for number in range(305, 309)} <= set(_left(engine, name).splitlines()))
    send_when_asleep(caller.pid)
    assert caller.stdout.readline() == b"interrupted\n"
    send_when_asleep(caller.pid)
    assert caller.wait(120) == 130
    assert caller.stdout.read() == b""  # it was not asked by SIGTERM first, for which it would have had time
    assert _left(engine, name) == ""


def test_an_interrupt_comes_once_and_what_it_prints_is_read(start):
    script = """
import signal, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print("up", flush=True)
while not seen:
    time.sleep(0.01)
time.sleep(0.5)
print(len(seen))
"""
    caller = start("sh", "-c", 'trap : INT; python3 -c "$0"; exit 3', script)
    send_when_asleep(caller.pid)
    assert caller.stdout.read() == b"1\n"
    assert caller.wait(120) == 130


def test_a_reader_that_goes_ends_the_command(engine, made, command, processes):
    words, pipe = command("run", made.recipe.name, "--", "yes"), subprocess.PIPE
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as caller:
        assert caller.stdout.read(2) == b"y\n"
        caller.stdout.close()
        assert b"error" not in caller.stderr.read()
    assert "yes" not in processes(ensure_running(engine, made))


def test_an_interrupt_in_execute_ends_the_command(engine, made):
    name = ensure_running(engine, made)

    def interrupt() -> None:
        own = Engine.connect()
        wait_for(lambda: "301" in _left(own, name))
        send_when_asleep(os.getpid())

    interrupting = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupting.start()
        execute(engine, name, ["sleep", "301"])
    interrupting.join()
    assert _left(engine, name) == ""


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REFUSED = b"curl: (7) Failed to connect to 127.0.0.1 port 8888: Connection refused\n"


def facts(root: Path, tcp: str, tcp6: str = "", output: bytes = REFUSED, code: int = 1) -> tuple[str, ...]:
    folder = root / "7" / "net"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tcp").write_text(HEAD + tcp)
    (folder / "tcp6").write_text(HEAD + tcp6)
    settings = ContainerSettings(ports=(Port("127.0.0.1", 8888, 8888), Port("127.0.0.1", 6006, 6006)))
    labels = {names.SETTINGS: to_label(settings)}
    with KernelWatch(7, root) as kernel:
        return Evidence("gnn", ContainerInfo("f" * 64, pid=7, labels=labels), kernel, root).facts(code, output)


NOBODY = ("reprokit: port 8888 is published, and no process in the container listens on it",)
LOOPBACK = ("reprokit: port 8888 is published, and a process in the container listens on its loopback only",)


@pytest.mark.parametrize(
    ("tcp", "tcp6", "expected"),
    [
        ("", "", NOBODY),
        ("   0: 0100007F:22B8 00000000:0000 0A 0\n", "", LOOPBACK),
        ("", "   0: 00000000000000000000000001000000:22B8 0:0 0A 0\n", LOOPBACK),
        ("   0: 00000000:22B8 00000000:0000 0A 0\n", "", ()),
        ("   0: 0100007F:22B8 0:0 0A 0\n   1: 020011AC:22B8 0:0 0A 0\n", "", ()),
        ("   0: 0100007F:22B8 0100007F:9999 01 0\n", "", NOBODY),  # a connection, no listener
        ("   0: 00000000:1776 00000000:0000 0A 0\n", "", NOBODY),
    ],
)
def test_who_listens_on_a_refused_port(tmp_path: Path, tcp: str, tcp6: str, expected: tuple[str, ...]):
    assert facts(tmp_path, tcp, tcp6) == expected


def test_a_port_that_nobody_asked_for_is_no_fact(tmp_path: Path):
    much = b"x" * 8_000_000 + b" connection refused 8888" + b"y" * 8_000_000  # searched in linear time
    line, other = b"train.py: error in line 8888\n", b"connection to 10.0.0.1 port 5432 refused\n"
    for output in (b"", line, other, b"8888\nrefused\n", much):
        assert facts(tmp_path, "", output=output) == ()
    assert facts(tmp_path, "", code=0) == ()


def test_a_command_that_used_no_processor_before_its_time_limit_hung(tmp_path: Path):
    with KernelWatch(7, tmp_path) as kernel:
        evidence = Evidence("gnn", ContainerInfo("f" * 64, pid=7), kernel, tmp_path, idle_s=lambda: 61.2)
        (fact,) = evidence.facts(1, b"", killed=True)
        assert fact == "reprokit: the command used no processor in its last 61 s" and evidence.facts(1, b"") == ()
    assert explain(io.BytesIO(fact.encode()), failed=True).causes[0].rule == "command-hung"


def test_of_a_container_elsewhere_only_the_exit_code_is_reported(tmp_path: Path):
    with KernelWatch(0, tmp_path) as kernel:
        assert Evidence("gnn", None, kernel, tmp_path).facts(137, REFUSED) == ("reprokit: exit code 137 (SIGKILL)",)
