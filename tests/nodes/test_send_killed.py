"""Transfers whose processes are killed at random moments."""

from __future__ import annotations

import pytest

from tests.support.send_kills import VICTIMS, image, kill_and_repeat
from tests.support.sender import Sender

pytestmark = pytest.mark.engine


@pytest.mark.kills(len(VICTIMS))
def test_a_kill_leaves_no_partial_image_and_costs_little(nodes, images, tmp_path, kills: int):
    name, user = image(images), Sender(nodes, tmp_path / "home")
    for seed in range(kills):
        kill_and_repeat(nodes["node1"], user, images, name, seed)
        nodes.clear()
