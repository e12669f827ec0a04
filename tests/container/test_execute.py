"""Commands in a running container: what they get, what comes back, and that none outlives its caller."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest

from reprokit.container.execute import execute, refusal
from reprokit.container.lifecycle import ensure_running
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from tests.support.processes import send_when_asleep
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine


def test_output_and_exit_code(engine, made):
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


def test_much_output_and_bytes_that_are_no_text(engine, made):
    name = ensure_running(engine, made)
    done = execute(engine, name, ["sh", "-c", "head -c 16000000 /dev/zero | tr '\\0' x"], logged=False)
    assert len(done.stdout) == 16_000_000
    assert execute(engine, name, ["printf", "\\377a"]).stdout == "\ufffda"


def test_more_output_than_is_kept_is_refused(engine, made, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", str(1 << 20))
    name = ensure_running(engine, made)
    much = ["sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' x"]
    with pytest.raises(WorkFailed, match="wrote more than 1 MiB"):
        execute(engine, name, much, logged=False)


def test_a_command_that_runs_out_of_time_is_ended(engine, made, sh):
    name = ensure_running(engine, made)
    done = execute(engine, name, ["sh", "-c", "echo begun; sleep 4321"], timeout=15)
    assert (done.timed_out, done.exit_code, done.stdout, done.facts) == (True, 124, "begun\n", ())
    assert "4321" not in sh(name, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep [4]321' || true")
    done = execute(engine, name, ["sh", "-c", "exit 124"], timeout=200)
    assert (done.timed_out, done.exit_code) == (False, 124)


def test_no_first_frame_is_lost(engine, made):
    name = ensure_running(engine, made)
    assert [execute(engine, name, ["echo", "hi"], logged=False).stdout for _ in range(30)] == ["hi\n"] * 30


@pytest.mark.parametrize(
    ("argv", "code"), [(["nope"], 127), (["/nope/x"], 127), (["/etc/passwd"], 126), (["/tmp"], 126)]
)
def test_what_cannot_be_started(engine, made, call, argv, code):
    done = execute(engine, ensure_running(engine, made), argv)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr
    run = call("run", made.recipe.name, "--", *argv)
    assert run.returncode == code
    assert run.stderr.splitlines()[-1].startswith("error: cannot run it")
    assert run.stdout == ""


def test_a_commands_own_126_is_left_alone():
    assert refusal(126, "OCI runtime: mine") is None
    assert refusal(1, "OCI runtime exec failed: exec failed: x: unknown") is None


def test_input_is_passed_on(made, call):
    assert call("run", made.recipe.name, "--", "wc", "-c", input="abc\n" * 100_000).stdout == "400000\n"


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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_end_from_outside_leaves_nothing_running(engine, made, command, number, code):
    name = ensure_running(engine, made)
    caller = subprocess.Popen(
        command("run", made.recipe.name, "--", "sh", "-c", "sleep 304 & echo up; sleep 303"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert caller.stdout.readline() == b"up\n"
    wait_for(lambda: sorted(_left(engine, name).split()) == ["303", "304", "sleep", "sleep"])
    send_when_asleep(caller.pid, number)
    assert caller.wait(120) == code
    assert _left(engine, name) == ""


def test_the_stubborn_end_too_and_a_second_interrupt_is_quick(engine, made, command):
    name = ensure_running(engine, made)
    caller = subprocess.Popen(
        command("run", made.recipe.name, "--", "sh", "-c", STUBBORN),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert caller.stdout.readline() == b"up\n"
    wait_for(lambda: {f"sleep {number} " for number in range(305, 309)} <= set(_left(engine, name).splitlines()))
    send_when_asleep(caller.pid)
    assert caller.stdout.readline() == b"interrupted\n"
    send_when_asleep(caller.pid)
    assert caller.wait(120) == 130
    assert caller.stdout.read() == b""  # it was not asked by SIGTERM first, for which it would have had time
    assert _left(engine, name) == ""


def _said_after_ctrl_c(words):
    """What a command writes that has said `up` and is interrupted then."""
    caller = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert caller.stdout.readline() == b"up\n"
    send_when_asleep(caller.pid)
    said = caller.stdout.read()
    assert caller.wait(120) == 130
    return said


def test_a_program_that_tidies_up_is_heard(made, command):
    script = """
import time
try:
    print("up", flush=True)
    while True:
        time.sleep(0.1)  # a longer sleep may begin just after the signal, and end without it
except KeyboardInterrupt:
    print("x" * 9)
"""
    assert _said_after_ctrl_c(command("run", made.recipe.name, "--", "python3", "-c", script)) == b"xxxxxxxxx\n"


def test_an_interrupt_comes_once(made, command):
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
    shell = ["sh", "-c", 'trap : INT; python3 -c "$0"; exit 3', script]
    assert _said_after_ctrl_c(command("run", made.recipe.name, "--", *shell)) == b"1\n"


def test_a_reader_that_goes_ends_the_command(engine, made, command, processes):
    with subprocess.Popen(
        command("run", made.recipe.name, "--", "yes"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as caller:
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
