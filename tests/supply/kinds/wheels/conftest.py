from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.recipe.model import Sdist
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import lock_wheels
from reprokit.supply.lock.model import Distribution
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.wheels import PYTHON_311, Lock


@pytest.fixture
def lock(store: Store, tmp_path: Path) -> Lock:
    """Lock wheels of the folder `index`, or of the mirrors that a test gives."""

    def run(
        requirements: list[str],
        platform: Platform = PYTHON_311,
        sdists: tuple[Sdist, ...] = (),
        indexes: tuple[str, ...] = (),
        mirrors: Mirrors | None = None,
        as_of: str = "",
        **more: object,
    ) -> tuple[Distribution, ...]:
        folder = PipSettings(find_links=((tmp_path / "index").as_uri(),))
        used = mirrors or local_mirrors(store, pip=folder)
        return lock_wheels(WheelRequest(requirements, platform, sdists, indexes, AsOf(as_of)), used, **more)

    return run
