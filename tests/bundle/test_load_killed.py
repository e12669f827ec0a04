"""The loader or the engine dies at a random moment. `tests/proofs/load_killed.py` does it a hundred times."""

from __future__ import annotations

import signal
import time

import pytest

from tests.support.load_kills import NAME, Killing

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def killing(tmp_path_factory):
    killing = Killing(tmp_path_factory.mktemp("killed"), seed=1)
    yield killing
    killing.close()


def test_a_killed_loader_leaves_no_half_image_and_is_repeated(killing):
    for _ in range(2):
        killing.kill_loader()
    assert killing.seen["loader killed"]


def test_a_killed_engine_has_no_half_image_and_the_load_is_repeated(killing):
    killing.kill_engine()


def test_an_interrupted_load_says_so_and_leaves_no_name(killing):
    killing._remove()
    process = killing._load()
    time.sleep(killing.usual / 2)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode in (0, 130) and "Traceback" not in said
    if process.returncode == 130:
        assert said.endswith("interrupted\n") and killing.engine.connect().image(NAME) is None
    killing._check_and_repeat()
