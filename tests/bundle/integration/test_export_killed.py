"""Exports killed at random moments: no kill leaves a broken bundle, and the repeated command resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.export_kills import kill_and_repeat
from tests.support.images import Images, noise

pytestmark = pytest.mark.engine


@pytest.mark.kills(2)
def test_killed_at_random_moments(images: Images, tmp_path: Path, kills: int) -> None:
    base = images.base("kill", {f"f{i}": noise(1 << 20, i * 5000) for i in range(4)})
    name = images.on(base, "killed", [{f"g{i}/{j}": noise(1 << 20, i * 7 + j) for j in range(4)} for i in range(4)])
    kill_and_repeat([name], tmp_path, kills, seed=5)
