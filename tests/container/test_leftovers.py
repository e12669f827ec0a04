"""Which containers are leftovers."""

from __future__ import annotations

import io
import os

from reprokit.container import names
from reprokit.container.leftovers import leftovers, remove
from reprokit.image import made
from tests.support.builds import root_file_system
from tests.support.images import tar_of
from tests.support.names import unique


def test_a_stopped_container_of_an_earlier_build(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    recipe, name = unique("old"), unique("old")
    old = engine.import_image(io.BytesIO(root_file_system()), recipe, "old", [])
    new = engine.import_image(io.BytesIO(tar_of({"x": b"new"})), f"reprokit/{recipe}", "v", [])
    labels = {names.NAME: name, names.RECIPE: recipe, names.VARIANT: "v", names.IMAGE: old}
    body = {"Image": old, "Cmd": ["/bin/sleep", "60"], "Labels": {**labels, names.OWNER: str(os.getuid())}}
    container = engine.create_container(name, body)
    try:
        # Anyone can copy the labels: the image's ID decides.
        assert not [each for each in leftovers(engine) if each.id == container]
        made.record(engine, old, "image", f"{recipe}:v")
        (leftover,) = leftovers(engine)
        assert leftover.id == container and leftover.why == "stopped, and its image was rebuilt"
        engine.start(container)
        assert leftovers(engine) == [] and not remove(engine, leftover)
        engine.stop(container, timeout_s=0)
        engine.tag(old, f"reprokit/{recipe}", "v")
        assert leftovers(engine) == [], "the image is the present one"
        assert remove(engine, leftover) and engine.container(name) is None
    finally:
        if engine.container(name):
            engine.remove(name, force=True)
        for image in (old, new):
            engine.remove_image(image, force=True)
