"""Requirements files of thousands of lines."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_no_requirement_of_a_long_file_is_lost_unseen(stated):
    hashes = "".join(f" \\\n    --hash=sha256:{number:064x}" for number in range(30))
    found = stated({"requirements.txt": "".join(f"package-{number}==1.{number}{hashes}\n" for number in range(300))})
    packages = [s for s in found if s.subject == "package"]
    assert (len(packages), len(found)) == (300, 300)
    assert (packages[-1].value, packages[-1].origin.line) == ("package-299==1.299", 299 * 31 + 1)

    found = stated({"requirements.txt": "".join(f"package-{number}\n" for number in range(5001))})
    assert [(s.value, s.origin.line) for s in found if s.subject == "unread"] == [
        ("what follows after 5000 lines", 5001)
    ]
