"""Bases and builds by podman's service."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.image.base.resolve import locked_base
from tests.support.builds import root_file_system
from tests.support.engines import Podman
from tests.support.privileges import as_root

pytestmark = [pytest.mark.engine, pytest.mark.long, as_root()]


@pytest.fixture
def podman(short_path: Path) -> Iterator[Engine]:
    served = Podman(short_path / "p")
    yield served.connect()
    served.stop()


def test_its_base_is_that_of_docker(podman: Engine, engine: Engine, bookworm):
    made = locked_base(podman, bookworm.lock, bookworm.store)
    docker = engine.image(bookworm.base.image_id)
    assert podman.layers(made.image_id) == docker.layers


def test_a_build(podman: Engine, builds):
    base = builds.target.variant.base
    podman.import_image(io.BytesIO(root_file_system()), *base.split(":"), ["ENV PATH=/bin"])
    made = builds("RUN echo a > /a\nENV B=c\nFROM scratch\nCOPY --from=0 /a /b\n", engine=podman)
    config = podman.image(made.image_id).config
    assert not config.get("Entrypoint") and not config.get("Cmd") and "reprokit" not in str(config["Env"])
    assert not podman.containers([])
