"""Transfers killed at random moments; `tests/proofs/send_kills.py` does it a hundred times."""

from __future__ import annotations

import pytest

from tests.support.send_kills import VICTIMS, clean, image, kill_and_repeat
from tests.support.sender import Sender

pytestmark = pytest.mark.engine


def test_a_kill_leaves_no_half_image_and_costs_little(nodes, images, tmp_path):
    name, user = image(images), Sender(nodes, tmp_path / "home")
    for seed in range(len(VICTIMS)):
        kill_and_repeat(nodes["node1"], user, images, name, seed)
        clean(nodes)
