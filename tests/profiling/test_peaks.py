"""Peaks measured in a real container, whose compiler is the host's."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reprokit import cli
from reprokit.container.execute import Completed
from reprokit.container.lifecycle import ensure_running
from reprokit.engine import EngineVersion
from reprokit.errors import SourceError, WorkFailed
from reprokit.host.mounts import BindMount
from reprokit.profiling import peaks
from reprokit.recipe import find
from reprokit.results import lines
from tests.support.records import RECORD

USR = BindMount("/usr", "/usr", True)


@pytest.mark.usefixtures("nothing_left")
def test_peaks_and_points_of_a_recipe(desk, image, monkeypatch):
    def with_usr(engine, target, options):
        return ensure_running(engine, target, replace(options, mounts=(USR,)))

    monkeypatch.setattr("reprokit.bench.container.ensure_running", with_usr)
    match = re.search(r"model name\s*: *(.*)", Path("/proc/cpuinfo").read_text())
    counted = [("x.work", "GFLOP", 1.0), ("x.traffic", "MB", 1000.0), ("x.time", "ms", 100.0)]
    known = replace(RECORD, params={"n": 1}, cpu=match[1], variant=find.target(image).variant_name)
    mine = [replace(known, metric=metric, unit=unit, samples=(value,)) for metric, unit, value in counted]
    other = [replace(each, cpu="another processor", params={"n": 2}) for each in mine]
    older = [replace(each, image_digest="sha256:0", params={"n": 3}, time="2020-01-01T00:00:00Z") for each in mine]
    of_another = [replace(each, variant="other", params={"n": 4}) for each in mine]
    lines.append(desk, f"results/{image}.jsonl", [*older, *mine, *other, *of_another])
    done = CliRunner().invoke(cli.app, ["results", "roofline", image, "--threads", "1", "--plot", "roof.svg", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (one,) = found["measured"]
    assert one["threads"] == 1 and found["processor"] == match[1]
    assert 1 < one["peaks"]["float32"] < 1000 and 0.1 < one["bandwidths"]["copy"] < 1000
    (point,) = found["points"]  # not that of another processor, an older image, another variant
    assert "points: only the latest of 2 sets of unlike records, which differ in image_digest" in done.stderr
    assert (point["rate"], point["intensity"]) == (pytest.approx(10.0), pytest.approx(1.0))
    assert "1 thread float32" in Path("roof.svg").read_text()


class Stub:
    """An engine of this machine that takes any file."""

    def __init__(self) -> None:
        self.tars: list[bytes] = []

    def put_archive(self, container: str, folder: str, tar: bytes) -> None:
        self.tars.append(tar)

    def version(self) -> EngineVersion:
        return EngineVersion(architecture={"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()])


def test_without_a_compiler_anywhere_the_package_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WorkFailed) as raised:
        peaks.processors(Stub(), "c", lambda argv: Completed(1), [1])
    assert "needs a C++ compiler" in raised.value.message and "`g++`" in raised.value.hint


FAKE = r"""#!/bin/sh
case $* in *-static*peaks.cpp) ;; *) exit 1 ;; esac
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\necho \047{"threads": 1, "peaks": {"float32": 9}, "bandwidths": {}}\047\n' > "$2"
"""


@pytest.mark.parametrize("compiler", ["fake", pytest.param("c++", marks=[pytest.mark.compiler, pytest.mark.long])])
def test_this_machine_compiles_for_an_image_without_a_compiler(tmp_path, monkeypatch, compiler, reported: list[str]):
    stub, program = Stub(), tmp_path / "tmp/reprokit-peaks"
    if compiler == "fake":
        (tmp_path / "c++").write_text(FAKE)
        (tmp_path / "c++").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def ask(argv: list[str]) -> Completed:
        if argv[0] == "sh":
            return Completed(1)
        subprocess.run(["tar", "-x", "-C", tmp_path], input=stub.tars[-1], check=True)
        if compiler == "c++":
            headers = subprocess.run(["readelf", "-l", program], capture_output=True, check=True).stdout
            assert b"PT_INTERP" not in headers
        done = subprocess.run([program, *argv[1:]], capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    (measured,) = peaks.processors(stub, "c", ask, [1])
    assert measured.threads == 1 and measured.peaks["float32"] > 0 and "no C++ compiler" in reported[0]


def test_loops_that_fail_or_forge_their_output_are_refused():
    answers = iter([Completed(0), Completed(0), Completed(1, "", "9 MB of memory are available\n")])
    with pytest.raises(WorkFailed, match="the loops failed: 9 MB of memory are available"):
        peaks.processors(Stub(), "c", lambda argv: next(answers), [1])
    rates = ('{"float32": 0}', '{"float32": 1e999}', '{"%s": 1}' % ("x" * 200))
    forged = [f'{{"threads": 1, "peaks": {rate}, "bandwidths": {{}}}}' for rate in rates]
    for line in (*forged, '{"threads": -1, "peaks": {}, "bandwidths": {}}', "{"):
        with pytest.raises(SourceError):
            peaks.processors(Stub(), "c", lambda argv, line=line: Completed(0, line), [1])
