"""No kill leaves a bundle that is none; repeated, it goes on. `tests/proofs/bundle_killed.py` kills more often."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.export_kills import kill_and_repeat
from tests.support.images import Images, noise

pytestmark = pytest.mark.engine


def test_killed_at_random_moments(images: Images, tmp_path: Path) -> None:
    base = images.base("kill", {f"f{i}": noise(1 << 20, i * 5000) for i in range(4)})
    name = images.on(base, "killed", [{f"g{i}/{j}": noise(1 << 20, i * 7 + j) for j in range(4)} for i in range(4)])
    kill_and_repeat([name], tmp_path, 3, seed=5)
