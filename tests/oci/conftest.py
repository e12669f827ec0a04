"""Images that the tests of reading share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reprokit.engine import Engine
from tests.support.images import Images


@pytest.fixture(scope="session")
def images(engine: Engine) -> Iterator[Images]:
    made = Images(engine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def base(images: Images) -> str:
    return images.common_base()


@pytest.fixture(scope="session")
def two(images: Images, base: str) -> tuple[str, str]:
    return images.two_on(base)
