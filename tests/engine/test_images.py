"""Builds of the classic builder."""

from __future__ import annotations

import io

import docker
import pytest

from reprokit.engine import Engine
from reprokit.engine.images import complete

CONTENT = "/var/lib/docker/image/overlay2/imagedb/content"


@pytest.mark.parametrize(
    "error",
    [
        'unable to find image "sha256:7a65b104ef74"',
        f"failed to get digest sha256:{'e9' * 32}: open {CONTENT}/sha256/{'e9' * 32}: no such file or directory",
    ],
)
@pytest.mark.parametrize("times, ends_well", [(9, True), (10, False)])
def test_a_build_goes_on_where_another_image_vanished(monkeypatch, times, ends_well, error):
    """The engine's own race: it lists the images on the same base, and one of them is removed before it reads it."""
    gone = {"error": error}
    engine, contexts = Engine(docker.APIClient(version="1.41")), []

    def build(fileobj, **options):
        contexts.append(fileobj.read())
        yield {"stream": "Step 1/1 : FROM scratch\n"}
        yield gone if len(contexts) <= times else {"aux": {"ID": "sha256:1"}}

    monkeypatch.setattr(engine.api, "build", build)
    *_, last = engine.build(io.BytesIO(b"the context"))
    assert last == ({"aux": {"ID": "sha256:1"}} if ends_well else gone)
    assert contexts == [b"the context"] * 10


def listed(*manifests: tuple[str, bool]) -> list[dict]:
    return [{"Id": "a", "Manifests": [{"Kind": kind, "Available": available} for kind, available in manifests]}]


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([{"Id": "a"}, {"Id": "b"}], True),  # Engine 26
        ([{"Id": "b"}], False),
        (listed(("image", True)), True),  # Engine 28
        (listed(("image", False)), False),
        # An index: only this machine's architecture is present.
        (listed(("image", False), ("image", True), ("attestation", False)), True),
        (listed(("image", False), ("attestation", True)), False),
    ],
)
def test_an_image_without_blobs_is_recognised(images: list[dict], expected: bool) -> None:
    assert complete(images, "a") is expected
