"""How the suite itself runs: what it does with skips in CI, with hangs, and with signals that its starter ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# Each starts a pytest of its own.
pytestmark = pytest.mark.long


def run(folder: Path, test: str, *options: str, **more: object) -> subprocess.CompletedProcess[str]:
    (folder / "test_x.py").write_text(f"import os, signal, subprocess, sys, time\nimport pytest\n\n\n{test}")
    environment = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT), **more.pop("env", {})}
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.suite", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, **more)


SKIPPED = "def test_x():\n    pytest.skip({reason!r})\n\n\ndef test_y():\n    pass\n"


@pytest.mark.parametrize(
    ("ci", "reason", "code"), [("", "no docker", 0), ("true", "no docker", 1), ("true", "the CPU lacks avx512_amx", 0)]
)
@pytest.mark.parametrize("options", [(), ("-n1",)])
def test_a_skip_is_counted_and_refused_in_ci(tmp_path: Path, ci: str, reason: str, code: int, options: tuple[str]):
    done = run(tmp_path, SKIPPED.format(reason=reason), *options, env={"CI": ci})
    assert done.returncode == code, done.stdout
    assert f"   1  {reason}\n" in done.stdout
    assert ("error: CI may not skip for this reason" in done.stdout) == bool(code)


@pytest.mark.parametrize("options", [(), ("-n1",)])
def test_a_test_that_hangs_is_named_with_the_stacks(tmp_path: Path, options: tuple[str]):
    done = run(tmp_path, "def test_hangs():\n    time.sleep(100)\n", "--timeout=1", *options)
    assert done.returncode == 1
    assert "test_hangs" in done.stdout and "Timeout" in done.stdout and "time.sleep(100)" in done.stdout


CHILD = "import signal; print(*[signal.getsignal(s) is signal.SIG_IGN for s in (signal.SIGHUP, signal.SIGQUIT)])"
SIGNALS = f"""
def test_x():
    child = subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True).stdout
    assert child == "False False\\n"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "9"], timeout=0.1)
    sleeping = subprocess.Popen(["sleep", "900"])
    sleeping.send_signal(signal.SIGINT)
    assert sleeping.wait(120) == -signal.SIGINT
"""


def ignore() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


@pytest.mark.parametrize("options", [(), ("-n1",)])
def test_children_have_default_signals_where_the_starter_ignored_them(tmp_path: Path, options: tuple[str]):
    done = run(tmp_path, SIGNALS, *options, preexec_fn=ignore)
    assert done.returncode == 0, done.stdout


def test_without_the_plugin_they_inherit_what_is_ignored(tmp_path: Path):
    (tmp_path / "test_x.py").write_text(f"import signal, subprocess, sys\nimport pytest\n{SIGNALS}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, preexec_fn=ignore)
    assert done.returncode == 1 and "True True" in done.stdout
