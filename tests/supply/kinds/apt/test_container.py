"""The programs of a base are a stranger's: their output and time are bounded."""

from __future__ import annotations

import pytest

from reprokit.errors import SourceError
from reprokit.image.base.resolve import BaseImage
from reprokit.supply.kinds.apt.container import BaseApt
from reprokit.supply.kinds.kind import Tools
from tests.support.fetching import local_mirrors

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    ("script", "limit", "message"),
    [
        ("yes", ("PROGRAM_OUTPUT", 5 << 20), "prints more than 5 MiB"),
        ("yes >&2", ("PROGRAM_OUTPUT", 5 << 20), "prints more than 5 MiB"),
        ("sleep infinity", ("APT_SECONDS", 2), "takes more than 2 s"),
    ],
)
def test_a_package_manager_that_never_ends(engine, images, bookworm, store, monkeypatch, script, limit, message):
    image = images.on(bookworm.base.name, "apt", [{"usr/bin/apt-get": f"#!/bin/sh\n{script}\n".encode()}])
    base = BaseImage("me/base:1", image, engine.image(image)["Id"], "engine")
    monkeypatch.setenv(f"REPROKIT_LIMIT_{limit[0]}", str(limit[1]))
    tried = BaseApt(Tools(local_mirrors(store), lambda line: None, engine, lambda: base))
    with pytest.raises(SourceError, match=f"me/base:1 {message}") as caught:
        tried.__enter__()
    assert f"REPROKIT_LIMIT_{limit[0]}=" in caught.value.hint
    assert engine.container(tried.name) is None
