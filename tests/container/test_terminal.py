"""A real pseudo-terminal on `shell` and `run`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pytest

from reprokit.container.lifecycle import usual_name
from tests.support.processes import send_when_asleep
from tests.support.waiting import wait_for


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, argv: list[str], rows: int = 30, columns: int = 100) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, {**os.environ, "TERM": "vt220", "PS1": "$ "})
        self.text = ""
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.master)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def expect(self, pattern: str, seconds: float = 120) -> re.Match[str]:
        """Read until `pattern` is on the screen, and forget what comes before its end."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.text!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # EIO: the process has ended
                    self.text += os.read(self.master, 1 << 16).decode(errors="replace")
        self.text = self.text[found.end() :]
        return found

    def wait(self) -> int:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if select.select([self.master], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.text += os.read(self.master, 1 << 16).decode(errors="replace")
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"still running: {self.text!r}")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal(command, made):
    """`terminal(verb, *words)` starts a verb about the recipe on a terminal."""
    opened: list[Terminal] = []

    def start(*args: str) -> Terminal:
        opened.append(Terminal(command(*args)))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def run(made, call):
    """`run(*words)` runs `sh -c SCRIPT`, the last word, without a terminal."""
    return lambda *words: call("run", *words[:-1], made.recipe.name, "--", "sh", "-c", words[-1])


def test_a_shell_is_a_real_terminal(engine, terminal, processes, made):
    shell = terminal("shell", made.recipe.name)
    shell.expect(r"[#$] ")
    shell.send("stty size; tty; echo $TERM\r")
    shell.expect(r"30 100\r\n/dev/pts/\d+\r\nvt220\r\n")
    shell.resize(41, 133)
    os.kill(shell.pid, signal.SIGWINCH)
    shell.send("until stty size | grep '41 133'; do sleep 0.1; done\r")
    shell.expect(r"[\r\n]41 133\r\n")
    shell.send("sleep 300; echo code=$?\r")
    wait_for(lambda: "sleep 300" in processes(usual_name(engine, made)))
    shell.send("\x03")
    shell.send("echo still=$((40+2))\r")
    shell.expect("still=42")
    shell.send("\x10")  # Ctrl-P brings the last command back
    shell.expect(r"echo still=\$\(\(40\+2\)\)")
    shell.send("\r")
    shell.expect(r"still=42\r\n.*[#$] ")  # before its prompt bash reads no end of input
    shell.send("exit 5\r")
    assert shell.wait() == 5
    assert termios.tcgetattr(shell.master) == shell.before


def test_run_gives_a_terminal_only_if_it_is_asked_to(terminal, made, run):
    script = "printf '\\033]0;owned\\007\\033[2Jx\\rhidden\\n'; printf '\\033[2J' >&2; [ -t 1 ] || echo no terminal"
    plain = terminal("run", made.recipe.name, "--", "sh", "-c", script)
    plain.expect(r"no terminal")
    assert plain.wait() == 0
    logs = terminal("logs", "-n", "5", made.recipe.name)
    logs.expect(r"\\x1b\]0;owned\\x07\\x1b\[2Jx\r\nhidden")
    assert logs.wait() == 0 and "\x1b" not in plain.text + logs.text
    piped = run(script)
    assert "\x1b]0;owned\x07\x1b[2Jx" in piped.stdout and "\x1b[2J" in piped.stderr
    real = terminal("run", "-t", made.recipe.name, "--", "sh", "-c", f"{script}; trap 'exit 9' INT; tty; sleep 99")
    real.expect(r"\x1b\]0;owned\x07\x1b\[2Jx")
    real.expect("/dev/pts/")
    real.send("\x03")
    assert real.wait() == 9


def test_a_failed_command_ends_with_its_cause_unless_it_has_a_terminal(terminal, made, call, run):
    script = "echo output; nvcc"
    piped = run(script)
    assert (piped.returncode, piped.stdout) == (127, "output\n")
    assert [line.partition(" ")[0] for line in piped.stderr.splitlines()[-3:]] == ["cause:", "remedy:", "`reprokit"]
    # The two pipes of a container have no order between them.
    assert re.search("(?m)^line [12]: there is no nvcc", call("explain", "--last").stdout)
    real = terminal("run", "-t", made.recipe.name, "--", "sh", "-c", script)
    real.expect("not found")
    assert real.wait() == 127 and "cause:" not in real.text
    fine, unknown = run("echo nvcc: not found >&2"), run("echo all done >&2; exit 3")
    assert fine.returncode == 0 and fine.stderr.splitlines()[-1] == "nvcc: not found"
    assert unknown.returncode == 3 and unknown.stderr.splitlines()[-1] == "all done"


def test_a_command_gets_the_callers_proxy_without_its_password(made, run, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy.test:3128")
    done = run("env")
    assert "https_proxy=http://proxy.test:3128\n" in done.stdout and "secret" not in done.stdout + done.stderr
    assert "https_proxy: passed without the proxy's password" in done.stderr
    assert "https_proxy=http://me:secret@proxy.test:3128\n" in run("-e", "https_proxy", "env").stdout


def test_a_lost_connection_restores_the_terminal_and_ends_the_command(engine, terminal, processes, made):
    run = terminal("run", made.recipe.name, "--", "sleep", "302")
    container = usual_name(engine, made)
    wait_for(lambda: "sleep 302" in processes(container))
    send_when_asleep(run.pid, signal.SIGTERM)
    assert run.wait() == 143
    assert termios.tcgetattr(run.master) == run.before
    assert "sleep 302" not in processes(container)


def test_path_python_and_libraries_are_those_of_the_build(terminal, made, call):
    built = call("run", made.recipe.name, "--", "cat", "/made/built").stdout
    assert built == "/opt/first/python\n/opt/first:/usr/local/bin:/usr/bin:/bin\n/opt/lib\n"
    script = "command -v python; printenv PATH; printenv LD_LIBRARY_PATH"
    assert call("run", made.recipe.name, "--", "sh", "-c", script).stdout == built
    assert call("exec", made.recipe.name, "--", "bash", "-c", script).stdout == built
    assert call("shell", made.recipe.name, input=script).stdout == built
    shell = terminal("shell", made.recipe.name)
    shell.expect(r"[#$] ")
    shell.send(f"{script}\r")
    shell.expect(re.escape(built.replace("\n", "\r\n")))


def test_what_a_failed_build_left_is_opened_as_root_and_dropped(engine, made, call):
    image = engine.image(f"reprokit/{made.label}")
    engine.tag(image.id, f"reprokit/{made.recipe.name}", "cpu--failed")
    try:
        done = call("shell", made.recipe.name, "--failed", input="id -u; cat /made/built; exit 4")
        assert done.returncode == 4
        assert done.stdout.startswith("0\n/opt/first/python\n")
        assert engine.containers([f"reprokit.recipe={made.recipe.name}"]) == []
    finally:
        engine.remove_image(f"reprokit/{made.label}--failed")
