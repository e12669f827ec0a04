"""What becomes of pip's own words; the lines are pip's."""

from __future__ import annotations

import pytest

from reprokit.errors import EngineError, SourceError
from reprokit.supply.nearest import nearest_versions
from reprokit.supply.pip import explain
from reprokit.supply.redact import redact

RETRYING = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken "
    "by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a "
    "new connection: [Errno -3] Temporary failure in name resolution')': /simple/six/"
)
NONE = "ERROR: Could not find a version that satisfies the requirement six==1.16.0 (from versions: none)"
NO_MATCH = "ERROR: No matching distribution found for six==1.16.0"


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ([RETRYING, NONE, NO_MATCH], SourceError, "could not reach a package index"),
        ([NONE, NO_MATCH], SourceError, "no index has a wheel of six for Python 3.8"),
        ([NONE.replace("none", "1.14.0, 1.15.0"), NO_MATCH], SourceError, "no wheel of six==1.16.0 for Python 3.8"),
        ([RETRYING, NONE.replace("none", "1.14.0"), NO_MATCH], SourceError, "no wheel of six==1.16.0"),
        (
            ["ERROR: Could not install packages: [Errno 28] No space left on device"],
            EngineError,
            "disk of the store is full",
        ),
        (["/usr/bin/python3: No module named pip"], SourceError, "this Python has no pip"),
        (["ERROR: something new"], SourceError, "pip failed: something new"),
        ([], SourceError, "pip failed"),
    ],
)
def test_one_error(lines: list[str], kind: type, words: str):
    error = explain(lines, "3.8")
    assert isinstance(error, kind)
    assert words in error.message


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
