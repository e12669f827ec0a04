"""`reprokit lock`, killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from reprokit.supply.lock.file import read
from reprokit.supply.store import Store
from reprokit.supply.upkeep.verify import verify
from tests.support.desk import Desk

pytestmark = [pytest.mark.engine, pytest.mark.long]

QUIETLY = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}


@pytest.mark.kills(1)
def test_no_half_lock_and_no_half_file_is_left(engine, served, tmp_path, kills: int):
    desk = Desk(tmp_path, served[1])
    started = time.monotonic()
    desk.run("lock", desk.recipe)
    takes = time.monotonic() - started
    whole = read(desk.lock).variants
    command = [sys.executable, "-m", "reprokit", "lock", desk.recipe, "--update", "all"]
    for _ in range(kills):
        if random.random() < 0.5:
            desk.lock.unlink(missing_ok=True)
        with subprocess.Popen(command, cwd=desk.root, env=desk.environment, **QUIETLY) as process:
            time.sleep(random.uniform(0, takes))  # only the moment is random; what is judged is what was left
            os.killpg(process.pid, signal.SIGKILL)
        if desk.lock.exists():
            assert (left := read(desk.lock).variants) and left.items() <= whole.items()
        assert verify(Store(desk.root / "home" / "store")).bad == ()
    desk.run("lock", desk.recipe)
    assert read(desk.lock).variants == whole
