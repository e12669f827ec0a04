"""Profiles in real containers, whose programs are the host's: what is measured, what comes out, what stays behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.paths import ROOT

BUSY = """
import sys, time
def inner(n):
    return sum(i * i for i in range(n))
def outer():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        inner(20000)
print("running", sys.argv)
outer()
sys.exit(7)
"""
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(desk: Path, image: str, nothing_left: None) -> Call:
    """`call("--with", "perf", "--", ...)`: profile a command in a container with the host's /usr."""
    (desk / "busy.py").write_text(BUSY)
    volumes = ["-v", "/usr:/usr:ro", "-v", f"{desk}/busy.py:/opt/busy.py:ro"]

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reprokit", "profile", image, *volumes, *args]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL
        )

    return run


def chrome_events(file: Path) -> list[dict]:
    """The events of a Chrome trace as Perfetto reads it: an object or an array; each has a phase, times are numbers."""
    trace = json.loads(file.read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    assert events
    for event in events:
        assert isinstance(event["ph"], str) and len(event["ph"]) == 1 and isinstance(event["name"], str), event
        if event["ph"] in "XBEi":
            assert isinstance(event["ts"], int | float) and {"pid", "tid"} <= set(event), event
        assert event["ph"] != "X" or event["dur"] >= 0, event
    return events


@pytest.mark.network
def test_py_spy_is_fetched_finds_the_function_and_needs_no_capability(call: Call):
    done = call("--with", "py-spy", "--json", "--", "python3", "/opt/busy.py", "a b")
    assert done.returncode == 0, done.stderr  # py-spy hides the program's code
    assert "the image has no py-spy: fetching it for this run" in done.stderr
    found = json.loads(done.stdout)
    assert found["with"] == "py-spy"
    assert "inner" in found["rows"][0]["name"] and found["rows"][0]["share"] > 30
    assert "running ['/opt/busy.py', 'a b']" in done.stderr  # what the program prints is no JSON
    assert "SYS_PTRACE" not in done.stderr
    (trace,) = found["files"]
    begun = [event["name"] for event in chrome_events(Path(trace)) if event["ph"] == "B"]
    assert {"outer", "inner"} <= set(begun)


def test_a_missing_profiler_is_named_and_a_folder_with_files_left_alone(call: Call, desk: Path):
    done = call("--with", "nsys", "--", "true")
    assert done.returncode == 2
    assert "error: neither the image nor this machine has nsys" in done.stderr and "`nsight-systems`" in done.stderr
    assert not (desk / "profiles").exists()
    (desk / "mine").mkdir()
    (desk / "mine" / "trace.json").write_text("precious")
    done = call("-o", "mine", "--", "true")
    assert done.returncode == 2 and "not empty" in done.stderr
    assert (desk / "mine" / "trace.json").read_text() == "precious"


def test_perf_gets_a_capability_for_this_run_only(call: Call, engine, image: str):
    done = call("-o", "out", "--with", "perf", "--", "sh", "-c", "grep ^CapBnd /proc/self/status; python3 /opt/busy.py")
    # Hosts may have no perf, or forbid it.
    record = ["perf", "record", "-q", "-o", "/dev/null", "true"]
    if not shutil.which("perf") or subprocess.run(record, capture_output=True, check=False).returncode:
        assert done.returncode and ("has no perf" in done.stderr or "perf_event_paranoid" in done.stderr), done.stderr
        return
    assert done.returncode == 7, done.stderr
    assert "perf: the container of this run has" in done.stderr and "perf_event_open" in done.stderr
    assert "samples" in done.stdout and "_PyEval_EvalFrameDefault" in done.stdout
    assert Path("out/perf.data").read_bytes()[:8] == b"PERFILE2"
    assert "python3" in Path("out/perf.txt").read_text()
    # The control: a container without them has fewer.
    bounding = int(done.stdout.split("CapBnd:")[1].split()[0], 16)
    assert bounding & (1 << 21 | 1 << 38)  # CAP_SYS_ADMIN or CAP_PERFMON
    usual = [sys.executable, "-m", "reprokit", "run", image, "-v", "/usr:/usr:ro", "--", "cat", "/proc/self/status"]
    status = subprocess.run(usual, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    assert not int(status.split("CapBnd:")[1].split()[0], 16) & (1 << 21 | 1 << 38)
    for container in engine.containers([f"reprokit.recipe={image}"]):
        engine.remove(container.id, force=True)


TORCH = """
import sys, torch
torch.set_num_threads(1)
x = torch.ones(256, 256)
for _ in range(5):
    x = torch.nn.functional.relu(x @ x)
print(__name__, sys.argv)
"""


def test_torch_is_profiled_without_a_change_of_the_script(call: Call, desk: Path):
    (desk / "model.py").write_text(TORCH)
    packages = Path(next(path for path in sys.path if path.endswith("site-packages")))
    volumes = ["-v", f"{packages}:/venv:ro", "-v", f"{desk}/model.py:/opt/model.py:ro"]
    done = call(
        *volumes, "-e", "PYTHONPATH=/venv", "-o", "out", "--", "python3", "-u", "/opt/model.py", "--epochs", "1"
    )
    assert done.returncode == 0, done.stderr
    assert "__main__ ['/opt/model.py', '--epochs', '1']" in done.stdout
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("aten::mm ")]
    assert row[1] == "5"  # calls
    assert "GFLOP/s" in done.stdout
    names = {event["name"] for event in chrome_events(Path("out/trace.json"))}
    assert {"aten::mm", "aten::relu"} <= names


# In the words of Nsight Systems' user guide; the kernel's name would clear the screen.
NSYS = r"""#!/bin/sh
if [ "$1" = profile ]; then
    for word; do case $word in --output=*) report=${word#--output=}.nsys-rep ;; esac; done
    while [ "$1" != sh ]; do shift; done
    "$@"
    LEAVE
else
    STATS
fi
"""
TABLE = r"""
    [ "$3" = cuda_gpu_kern_sum ] || { echo "ERROR: Report '$3' could not be found." >&2; exit 1; }
    printf 'Time (%%),Total Time (ns),Instances,Avg (ns),Name\n100.0,2000000,4,500000.0,gemm\033[2J\n'
"""


@pytest.fixture
def nsys(call: Call, desk: Path) -> Call:
    """`nsys(leave)` profiles with a stand-in that runs `leave` to make its report, and `stats` for a table of it."""

    def run(leave: str, *args: str, stats: str = TABLE) -> subprocess.CompletedProcess[str]:
        (desk / "nsys").write_text(NSYS.replace("LEAVE", leave).replace("STATS", stats))
        (desk / "nsys").chmod(0o755)
        volumes = ["-v", f"{desk}/nsys:/opt/bin/nsys:ro", *args]
        return call(*volumes, "--with", "nsys", "-o", "out", "--", "sh", "-c", "echo ran")

    return run


def test_nsight_systems_kernels_without_control_of_the_terminal(nsys: Call):
    done = nsys('echo report > "$report"')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ran\n") and "launches" in done.stdout
    assert "gemm\\x1b[2J" in done.stdout and "\x1b" not in done.stdout + done.stderr
    assert {path.name: path.read_text() for path in Path("out").iterdir()} == {"report.nsys-rep": "report\n"}
    assert "SYS_ADMIN" not in done.stderr


def test_a_program_without_kernels(nsys: Call):
    """What `nsys stats` printed for `true`. A version that does not know a table has no file of it."""
    volume = f"{ROOT}/tests/profiling/nsys/2020.4.3:/opt/recorded:ro"
    done = nsys('echo report > "$report"', "-v", volume, stats='cat "/opt/recorded/$3.txt"')
    assert done.returncode == 0, done.stderr
    assert "the profile has no summary: nsys recorded no CUDA kernels\n" in done.stderr
    assert "launches" not in done.stdout and "report.nsys-rep" in done.stdout


def test_a_report_that_was_not_imported_is_brought_out(nsys: Call):
    done = nsys('echo raw > "${report%.nsys-rep}.qdstrm"', stats='echo "ERROR: no such file"; echo usage >&2; exit 1')
    assert done.returncode == 0, done.stderr
    assert "the profile has no summary: ERROR: no such file\n" in done.stderr
    assert "out/report.qdstrm  QdstrmImporter of the same Nsight Systems makes a report of it" in done.stdout
    assert Path("out/report.qdstrm").read_text() == "raw\n"


def test_a_report_that_is_none_stays_in_the_container(nsys: Call, desk: Path, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_PROFILE", "4000")
    for leave, code, message in (
        ('ln -s /etc/passwd "$report"', 1, "not a regular file"),
        ('truncate -s 5000 "$report"', 2, "more than 4000 bytes"),
    ):
        done = nsys(leave)
        assert (done.returncode, message in done.stderr) == (code, True), done.stderr
        assert not (desk / "out").exists()
