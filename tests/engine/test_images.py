"""What the engine lists of images."""

from __future__ import annotations

import pytest

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
