"""The engine's own archive decides whether a layer was foretold rightly."""

from __future__ import annotations

import hashlib

import pytest

from reprokit.bundle.foretell import Foretold
from reprokit.bundle.saved import Saved
from reprokit.engine import Engine

pytestmark = pytest.mark.engine


def test_every_layer_of_the_engine_is_foretold(engine: Engine, two: tuple[str, str]) -> None:
    layers = [tuple(engine.image(name)["RootFS"]["Layers"]) for name in two]
    foretold = Foretold(layers)
    saved = Saved(engine.save_all(list(two)))
    for layer in saved.layers():
        before = foretold.diff_id(layer.path, saved.texts)
        digest = hashlib.sha256()
        for block in layer.blocks:
            digest.update(block)
        assert before == f"sha256:{digest.hexdigest()}"


def test_a_name_of_no_known_form_foretells_nothing() -> None:
    layer = f"sha256:{'a' * 64}"
    assert Foretold([(layer,)]).diff_id("blobs/sha256/" + "b" * 64, {}) is None
    assert Foretold([(layer,)]).diff_id("c" * 64 + "/layer.tar", {}) is None
    assert Foretold([(layer,)]).diff_id("c" * 64 + "/layer.tar", {"c" * 64 + "/json": b"nonsense"}) is None
    assert Foretold([(layer,)]).diff_id("a" * 64 + ".tar", {}) == layer
