from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import pytest

from reprokit.engine import Engine
from reprokit.image.base.resolve import BaseImage
from tests.support.images import tar_of
from tests.support.names import unique


@pytest.fixture(scope="module")
def debian(engine: Engine, debian_12: BaseImage) -> Iterator[BaseImage]:
    """Debian 12 as an image of its own: the classic builder may take a layer of another build on the same base."""
    name = unique("debian")
    dockerfile = f"FROM {debian_12.name}\nLABEL test={name}".encode()
    for event in engine.build(io.BytesIO(tar_of({"Dockerfile": dockerfile})), tag=name, rm=True):
        assert "error" not in event, event
    image = engine.image(name)
    assert image is not None
    yield replace(debian_12, name=name, image_id=image["Id"])
    engine.remove_image(name, force=True)
