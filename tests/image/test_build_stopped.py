"""Builds that do not come to their end: stopped by their user, by the engine's death, by a full disk."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from reprokit.errors import EngineError
from tests.support.builds import root_file_system
from tests.support.names import unique
from tests.support.other_engine import OtherEngine
from tests.support.paths import ROOT
from tests.support.privileges import OWN_ENGINE, as_root
from tests.support.processes import send_when_asleep, sleeping
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

# The command line as it is, but for what it builds.
DRIVER = """
import sys
from pathlib import Path
from reprokit import cli
from reprokit.image import build
from tests.support.builds import rendered, target_of
from reprokit.recipe import find
name, base, dockerfile, *options = sys.argv[1:]
find.target = lambda text: target_of(name, base)
build.render = lambda target: rendered("ARG BASE\\nFROM ${BASE}\\n" + dockerfile)
sys.argv = ["reprokit", "build", name, "--force", *options]
cli.main()
"""


def start(
    name: str, base: str, dockerfile: str, home: Path, *options: str, **environment: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, name, base, dockerfile, *options],
        env={**os.environ, "REPROKIT_HOME": str(home), **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_build_at_the_engine(engine, base, tmp_path, builder: str, sent: int, code: int):
    name = unique("build")
    seconds = str(1_000_000 + uuid.uuid4().int % 1_000_000)
    process = start(name, base, f"RUN sleep {seconds}\n", tmp_path, "--builder", builder)
    wait_for(lambda: sleeping(seconds))
    send_when_asleep(process.pid, sent)
    _, shown = process.communicate(timeout=200)
    assert process.returncode == code, shown
    assert "Traceback" not in shown
    wait_for(lambda: not sleeping(seconds))
    assert not [c["Id"] for c in engine.containers([]) if seconds in c["Command"]]
    assert engine.image(f"reprokit/{name}:v") is None
    (log,) = (tmp_path / "state" / "logs").iterdir()
    assert log.read_text().splitlines()[-1] == "# interrupted"


root_only = as_root(OWN_ENGINE)


@root_only
def test_an_engine_that_dies_in_the_middle(short_path: Path, tmp_path: Path):
    other = OtherEngine(short_path, short_path / "data")
    seconds = str(1_000_000 + uuid.uuid4().int % 1_000_000)
    try:
        other.connect().import_image(io.BytesIO(root_file_system()), "base", "1", ["ENV PATH=/bin"])
        process = start("dying", "base:1", f"RUN sleep {seconds}\n", tmp_path, DOCKER_HOST=other.address)
        wait_for(lambda: sleeping(seconds))
        other.process.kill()
        _, shown = process.communicate(timeout=200)
    finally:
        other.stop()
        for pid in sleeping(seconds):
            os.kill(pid, signal.SIGKILL)
    assert process.returncode == 3, shown
    errors = [line for line in shown.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "the engine stopped answering" in errors[0]
    assert "Traceback" not in shown


@root_only
def test_a_full_disk_is_called_so(short_path: Path, tmp_path: Path, home, builds):
    data = short_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(data)], check=True)
    try:
        other = OtherEngine(short_path, data)
        try:
            engine = other.connect()
            name = builds.target.variant.base
            engine.import_image(io.BytesIO(root_file_system()), *name.split(":"), ["ENV PATH=/bin"])
            with pytest.raises(EngineError, match="disk is full") as error:
                builds("RUN head -c 200000000 /dev/zero >/big\n", engine=engine)
            assert "No space left on device" in error.value.message
            assert error.value.exit_code == 3
        finally:
            other.stop()
    finally:
        subprocess.run(["umount", "-R", "-l", str(data)], check=True)
