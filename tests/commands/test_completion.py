"""Completion in real shells, at a terminal: what a user types, TAB, and the line that the shell then runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import wait_for

# What sets up the shell, and how it starts without the user's own settings.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(reprokit completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -Uz compinit && compinit -u -D && eval "$(reprokit completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "reprokit completion fish | source"),
}
TYPED = {
    "a verb": ("expla", "<explain>"),
    "a variant": ("show fused-attention:cp", "<show> <fused-attention:cpu>"),
    "a variant after a colon": ("show mine:", "<show> <mine:one>"),
    "a choice after others": ("check fused-attention --for p", "<check> <fused-attention> <--for> <ptx>"),
    "a benchmark": ("bench fused-attention:cpu for", "<bench> <fused-attention:cpu> <forward>"),
    "an option": ("bench fused-attention --warm", "<bench> <fused-attention> <--warm-up>"),
    "a file in a folder": ("explain logs/fa", "<explain> <logs/failed.log>"),
}
RECIPE = "name: mine\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants: {one: {base: debian:12}}\n"


class Shell:
    """An interactive shell. `reprokit` completes as it does, and otherwise prints its arguments."""

    def __init__(self, name: str, folder: Path) -> None:
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
        (folder / "bin").mkdir()
        program = folder / "bin/reprokit"
        program.write_text(
            f'#!/bin/sh\n[ "$_REPROKIT_COMPLETE" ] || [ "$1" = completion ] && exec {sys.executable} -m reprokit "$@"\n'
            "printf 'ran:'; printf ' <%s>' \"$@\"; echo\n"
        )
        program.chmod(0o755)
        command, setup = SHELLS[name]
        env = {
            **{"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "PYTHONPATH": str(ROOT)},
            **{"TERM": "xterm", "PS1": "$ ", "REPROKIT_HOME": str(folder / "home"), "LC_ALL": "C.UTF-8"},
        }
        self.master, terminal = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=folder,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # fish needs a controlling terminal
        )
        os.close(terminal)
        self.screen = ""
        self.line(setup)
        self.line("reprokit is ready")
        self.until(r"ran: <is> <ready>")

    def line(self, text: str) -> None:
        os.write(self.master, f"{text}\r".encode())

    def until(self, pattern: str) -> str:
        end = time.monotonic() + 120
        while not (match := re.search(pattern, self.screen)):
            if time.monotonic() > end:
                pytest.fail(f"no {pattern!r} in {self.screen!r}")
            if select.select([self.master], [], [], 1)[0]:
                self.screen += os.read(self.master, 1 << 16).decode(errors="replace")
        return match[0]

    def completed(self, typed: str) -> str:
        """The arguments that `reprokit` runs with after `typed` and TAB."""
        self.screen = ""
        os.write(self.master, f"reprokit {typed}\t".encode())
        time.sleep(0.1)
        self.line("")  # read once the completion is there
        return self.until(r"ran:(?: <[^>\r\n]*>)+\r?\n").removeprefix("ran: ").rstrip()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


# Names of files in a stranger's checkout, which the user completes.
PLANTED = {"fb": "fb$(touch mark).log", "fc": "fc;touch mark;.log"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_completes_and_the_name_of_a_file_runs_nothing(name, tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/mine.yaml").write_text(RECIPE)
    (tmp_path / "logs").mkdir()
    # Files that would be offered instead of choices, and one for a verb that takes a file.
    for file in ("ptx-file", "build.log", "logs/failed.log"):
        (tmp_path / file).touch()
    for file in PLANTED.values():
        (tmp_path / "logs" / file).touch()
    shell = Shell(name, tmp_path)
    try:
        assert {what: shell.completed(typed) for what, (typed, _) in TYPED.items()} == {
            what: expected for what, (_, expected) in TYPED.items()
        }
        for start, file in PLANTED.items():
            assert shell.completed(f"explain logs/{start}") == f"<explain> <logs/{file}>"
        assert not (tmp_path / "mark").exists()
        for file in PLANTED.values():  # the control
            shell.line(f"echo {file}")
            wait_for(lambda: (tmp_path / "mark").exists())
            (tmp_path / "mark").unlink()
    finally:
        shell.close()


def test_an_unknown_shell_is_wrong_usage(call):
    result = call("completion", "tcsh")
    assert result.exit_code == 2 and "bash" in result.output
