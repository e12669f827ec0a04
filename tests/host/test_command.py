"""Programs of threads that outlive the main thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.processes import naming
from tests.support.waiting import wait_for

# The main thread ends while another one starts a program, and after that the thread would start one more.
SCRIPT = """
import contextlib, subprocess, sys, threading, time
from reprokit.host.command import run

real = subprocess.Popen
starting = threading.Event()

def slow(*arguments, **more):
    process = real(*arguments, **more)
    starting.set()
    time.sleep(0.2)
    return process

def work():
    for name in ("first", "second"):
        with contextlib.suppress(OSError):
            run([sys.argv[1], name], 60, 1000)

subprocess.Popen = slow
threading.Thread(target=work, daemon=True).start()
starting.wait()
"""


def test_they_end_with_it(tmp_path: Path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ntrap '' TERM\nsleep 9999\n")
    program.chmod(0o755)
    subprocess.run([sys.executable, "-c", SCRIPT, program], check=True, timeout=200)
    wait_for(lambda: not naming(program))
