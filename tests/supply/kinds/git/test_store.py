from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.supply.kinds.git.command import first_cause
from reprokit.supply.kinds.git.store import submodule_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("../b", "https://forge.test/team/b"),
        ("../../lib/b.git", "https://forge.test/lib/b"),
        ("./nested", "https://forge.test/team/top/nested"),
        ("https://other.test/x/y.git", "https://other.test/x/y"),
    ],
)
def test_addresses_of_submodules(url: str, expected: str):
    assert submodule_url("https://forge.test/team/top", "b", url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "git@forge.test:a/b",
        "ext::sh -c id",
        "file:///etc",
        "/etc",
        "http://forge.test/a/b",
        "--upload-pack=id",
        "git://x/y",
    ],
)
def test_submodules_elsewhere_are_refused_by_name(url: str):
    with pytest.raises(UsageError, match=r"submodule 'b'.*not an https://"):
        submodule_url("https://forge.test/team/top", "b", url)


def test_the_cause_among_gits_lines():
    lines = [
        "error: RPC failed; curl 56 GnuTLS recv error (-9)",
        "fatal: the remote end hung up unexpectedly",
        "fatal: early EOF",
    ]
    assert first_cause(lines) == "early EOF"
    assert first_cause(["fatal: unable to access 'https://me:pw@forge.test/x/': no"]).endswith(
        "'https://forge.test/x/': no"
    )
    assert first_cause([]) == "git gave no reason"
