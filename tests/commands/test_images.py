"""`reprokit images`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from reprokit.commands.images import list_
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import EngineError, UsageError
from reprokit.verify import layers

HERE, GONE = "reprokit/here:cpu", "reprokit/gone:cpu"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An engine that lists two images, of which only one is still present."""
    listed = [
        ImageInfo(f"sha256:{number:064x}", (name,), size=1, created=1) for number, name in enumerate((HERE, GONE))
    ]
    fake = SimpleNamespace(images=lambda labels: listed, containers=lambda labels: [])
    fake.image = {HERE: listed[0]}.get
    monkeypatch.setattr(Engine, "connect", lambda: fake)
    return fake


def test_an_image_removed_while_digests_are_made_is_not_listed(engine, monkeypatch, capsys):
    def of(engine, name: str) -> str:
        if name == GONE:
            raise UsageError("the engine has no image of this name", name)
        return name

    monkeypatch.setattr(layers.ImageInEngine, "of", of)
    monkeypatch.setattr(layers, "digest", lambda image: f"digest of {image}")
    list_(SimpleNamespace(invoked_subcommand=None), digest=True, as_json=True)
    assert [(row["name"], row["digest"]) for row in json.loads(capsys.readouterr().out)] == [
        (HERE, f"digest of {HERE}")
    ]


def test_an_image_that_cannot_be_read_is_an_error(engine, monkeypatch):
    def broken(engine, name: str) -> str:
        raise EngineError("no space left on device", name)

    monkeypatch.setattr(layers.ImageInEngine, "of", broken)
    with pytest.raises(EngineError, match="no space left"):
        list_(SimpleNamespace(invoked_subcommand=None), digest=True, as_json=True)
