"""Which profiler is chosen, and how it wraps a command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount
from reprokit.profiling import host_tools
from reprokit.profiling.tools import FOLDER, HOME, choose, profilers

ALL = ("torch", "nsys", "ncu", "perf", "py-spy")
SOME = ("nsys", "py-spy", "perf")
LAUNCHER = [f"{HOME}/launcher.py", FOLDER]


@pytest.mark.parametrize(
    ("argv", "present", "gpu", "chosen"),
    [
        ("python3 x.py", ALL, True, "torch"),
        ("/opt/conda/bin/python3.8 -m x", ALL, True, "torch"),
        ("python3 x.py", SOME, True, "nsys"),
        ("python3 x.py", SOME, False, "py-spy"),
        ("python3 x.py", ("perf", "ncu"), True, "perf"),
        ("./a.out", ALL, True, "nsys"),
        ("./a.out", ALL, False, "perf"),
    ],
)
def test_the_default_is_what_sees_most(argv, present, gpu, chosen):
    assert choose(argv.split(), None, present, gpu).name == chosen


def test_the_launcher_is_before_the_program():
    for argv, wrapped in [
        ("python3 x.py -m 1", ["python3", *LAUNCHER, "x.py", "-m", "1"]),
        ("python -u -W ignore -m pkg.mod a", ["python", "-u", "-W", "ignore", *LAUNCHER, "-m", "pkg.mod", "a"]),
        ("python3 -c pass", ["python3", *LAUNCHER, "-c", "pass"]),
    ]:
        assert profilers(argv.split())["torch"].wrap(argv.split()) == wrapped
    for argv in ("bash run.sh", "torchrun x.py", "python3", "python3 -", "python3 -u", "python3 -m"):
        with pytest.raises(UsageError, match="torch's profiler"):
            profilers(argv.split())["torch"].wrap(argv.split())


@pytest.mark.parametrize(
    ("requested", "message", "hint"),
    [
        ("ncu", "neither the image nor this machine has ncu", "`nsight-compute`"),
        ("perf", "the image has no perf", "`linux-perf`"),
        ("py-spy", "the image has no py-spy", "`py-spy`"),
        ("torch", "the image has no torch", "`torch`"),
        ("pyspy", r"no such profiler: pyspy.*py-spy", "one of torch"),
        (None, "no profiler for this command: torch, py-spy, perf", "`linux-perf`"),
    ],
)
def test_what_is_missing_is_named_with_its_package(requested, message, hint):
    with pytest.raises(UsageError, match=message) as raised:
        choose(["python3", "x.py"], requested, (), False)
    assert hint in raised.value.hint


def test_what_the_image_lacks_is_brought():
    brought = {"py-spy": "/brought/py-spy", "nsys": "/brought/nsys"}
    spy = choose(["python3", "x.py"], None, (), False, brought)
    assert (spy.name, spy.wrap(["python3", "x.py"])[0]) == ("py-spy", "/brought/py-spy")
    assert choose(["python3", "x.py"], None, ("perf",), False, brought).name == "perf"
    nsys = choose(["./a.out"], "nsys", (), True, brought)
    assert nsys.wrap(["./a.out"])[0] == "/brought/nsys"
    assert all(summary[2].startswith("/brought/nsys stats ") for summary in nsys.summaries)
    assert choose(["./a.out"], "nsys", ("nsys",), True, brought).wrap(["./a.out"])[0] == "nsys"


def test_the_newest_nsight_tools_of_this_machine(tmp_path):
    for file in (
        "opt/nvidia/nsight-systems/2023.4.4/bin/nsys",
        "opt/nvidia/nsight-systems/2023.10.1/bin/nsys",
        "opt/nvidia/nsight-systems/2024.1.1/doc/nsys",
        "usr/local/cuda-12.4/nsight-compute-2024.1.0/ncu",
    ):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    systems, compute = tmp_path / "opt/nvidia/nsight-systems", tmp_path / "usr/local/cuda-12.4"
    assert host_tools.nsight(tmp_path) == {
        "nsys": (BindMount(f"{systems}/2023.10.1", "/.reprokit-nsys", True), "/.reprokit-nsys/bin/nsys"),
        "ncu": (BindMount(f"{compute}/nsight-compute-2024.1.0", "/.reprokit-ncu", True), "/.reprokit-ncu/ncu"),
    }


def test_only_perf_needs_more_capabilities_from_the_start():
    assert {name for name, each in profilers(["x"]).items() if each.capabilities != ((),)} == {"perf"}


@pytest.mark.parametrize(
    ("left", "importer", "imported"),
    [
        ("report.qdstrm", "touch report.nsys-rep", "report.nsys-rep"),
        ("report.qdstrm", "touch report.qdrep", "report.qdrep"),
        ("report.qdstrm", "exit 1", "report.qdstrm"),
        ("report.qdstrm", None, "report.qdstrm"),
        ("report.qdrep report.qdstrm", "touch report.again", "report.qdrep"),
        ("report.nsys-rep", "touch report.again", "report.nsys-rep"),
        ("", "exit 1", ""),
    ],
)
def test_nsys_reports_are_imported_where_debian_has_the_importer(tmp_path: Path, left, importer, imported):
    out, host = tmp_path / "out", tmp_path / "usr/lib/nsight-systems/host-linux-x64"
    out.mkdir()
    host.mkdir(parents=True)
    for name in left.split():
        (out / name).write_text("")
    if importer is not None:
        expected = '[ "$*" = "--input-file report.qdstrm" ] || exit 2'
        (host / "QdstrmImporter").write_text(f"#!/bin/sh\n{expected}\n{importer}\n")
        (host / "QdstrmImporter").chmod(0o755)
    ((shell, option, script),) = profilers(["x"])["nsys"].then
    script = script.replace(FOLDER, str(out)).replace("/usr/lib", f"{tmp_path}/usr/lib")
    subprocess.run([shell, option, script], capture_output=True, check=False)
    assert sorted(path.name for path in out.iterdir()) == imported.split()
