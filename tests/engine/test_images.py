"""What the engine lists of images, and the names of imported ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reprokit.engine import Engine
from reprokit.engine.images import complete


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


def test_an_imported_image_has_its_tag() -> None:
    """podman 4.3 names what it imports `latest`, whatever the tag."""
    images: dict[str, str] = {}

    def imported(data: object, repository: str | None = None, changes: object = None) -> str:
        images.update({f"{repository}:latest": "a"} if repository else {})
        return '{"status": "a"}'

    def tag(image: str, repository: str, tag: str, force: bool) -> None:
        images[f"{repository}:{tag}"] = image

    engine = Engine(SimpleNamespace(import_image_from_stream=imported, tag=tag))
    assert engine.import_image(iter([b""]), "reprokit/own/base", "debian-12", []) == "sha256:a"
    assert images == {"reprokit/own/base:debian-12": "a"}
