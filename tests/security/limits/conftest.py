"""Runs the program in what an attack may take of the machine."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.bombs import GIB

MEMORY_KB = 512 << 10
SECONDS = 120  # of processor time, so that a slow machine passes, too
# Runs Python with the arguments after the first, and writes its peak of memory in KB to the file of that name. What
# `wait4` reports would be that of this process, if it is larger: a child begins as a copy.
MEASURED = """
import os, sys
process = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[2:]], os.environ)
_, status, usage = os.wait4(process, 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""
# A call without a command of its own, with the command's exit code.
MAIN = """
import sys
from pathlib import Path
from reprokit.errors import ReprokitError
def refused(kind, error, trace):
    if not isinstance(error, ReprokitError):
        sys.__excepthook__(kind, error, trace)
    print(f"error: {error.message} ({error.where})", f"hint: {error.hint}", sep="\\n")
    sys.stdout.flush()
    import os
    os._exit(error.exit_code)
sys.excepthook = refused
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """`run(*arguments, code=0, python="")`: a verb or a program in the memory and time of an attack; its output."""

    def bounded(*arguments: object, code: int = 0, python: str = "", **variables: str) -> str:
        program = ["-m", "reprokit"] if not python else ["-c", f"{MAIN}\n{python}\n"]
        command = [sys.executable, "-c", MEASURED, tmp_path / "memory", *program, *map(str, arguments)]
        environment = {**os.environ, "REPROKIT_HOME": str(tmp_path / "home"), **variables}
        with (tmp_path / "out").open("w") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=file, cwd=tmp_path, env=environment,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 * GIB, 8 * GIB)),
            )  # fmt: skip
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        text = (tmp_path / "out").read_text()
        assert "Traceback" not in text and "a bug in reprokit" not in text, text
        assert process.returncode == code, text
        assert 1 << 10 < int((tmp_path / "memory").read_text()) < MEMORY_KB
        assert usage.ru_utime + usage.ru_stime < SECONDS
        return text

    return bounded
