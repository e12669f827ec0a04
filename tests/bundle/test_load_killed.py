"""Loads during which the loader or the engine is killed at a random moment."""

from __future__ import annotations

import signal
import time

import pytest

from tests.support.load_kills import NAME, Killing


@pytest.fixture(scope="module")
def killing(engine, tmp_path_factory):
    killing = Killing(tmp_path_factory.mktemp("killed"), seed=1)
    yield killing
    killing.close()


@pytest.mark.long
@pytest.mark.kills(2)
def test_a_killed_loader_leaves_no_partial_image_and_is_repeated(killing, kills: int):
    killed = 0
    while killed < kills:
        killed += killing.kill_loader()


@pytest.mark.long
@pytest.mark.kills(1)
def test_a_killed_engine_has_no_partial_image_and_the_load_is_repeated(killing, kills: int):
    killed = 0
    while killed < kills:
        killed += killing.kill_engine()


@pytest.mark.long
def test_an_interrupted_load_leaves_no_name(killing):
    killing.remove()
    process = killing.load()
    time.sleep(killing.moments.takes / 2)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=200)[1]
    # Ended by the signal where its modules were not imported yet, as on a busy machine.
    assert process.returncode in (0, 130, -signal.SIGINT)
    if process.returncode == 130:
        assert "Traceback" not in said
        assert said.endswith("interrupted: the same command continues\n")
        assert killing.engine.connect().image(NAME) is None
    killing.check_and_repeat()
