"""Images that the tests of bundles share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reprokit.engine import Engine
from tests.bundle.images import Images, noise


@pytest.fixture(scope="session")
def images(engine: Engine) -> Iterator[Images]:
    made = Images(engine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def base(images: Images) -> str:
    return images.base("base", {"bin/a": noise(3 << 20, 1)}, ["ENV PATH=/bin:/opt/x", "WORKDIR /w", "USER 7"])


@pytest.fixture(scope="session")
def two(images: Images, base: str) -> tuple[str, str]:
    """Two images of a common base, each with layers of its own."""
    left = images.on(base, "left", [{"l/one": noise(1 << 20, 20)}, {"l/two": noise(1 << 20, 300)}])
    right = images.on(base, "right", [{"r/one": noise(2 << 20, 50)}], "LABEL x=y")
    return left, right
