from __future__ import annotations

import pytest

from reprokit.redact import redact
from reprokit.supply.kinds.wheels.pip import nearest_versions


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("x==2.5", ["2.0", "2.4", "2.6", "3.0"]),
        ("x==0.1", ["1.0", "2.0", "2.4", "2.6"]),
        ("x==99", ["2.4", "2.6", "3.0", "3.1"]),
        ("x", ["2.4", "2.6", "3.0", "3.1"]),
    ],
)
def test_nearest_versions(requirement: str, expected: list[str]):
    assert nearest_versions(requirement, ["1.0", "2.0", "2.4", "2.6", "3.0", "3.1", "not a version"]) == expected


def test_credentials_are_taken_out():
    text = "Looking in indexes: https://me:s3cret@index.test/simple, https://other.test/a@b"
    assert redact(text) == "Looking in indexes: https://index.test/simple, https://other.test/a@b"
