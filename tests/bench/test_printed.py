"""Records, or a benchmark's output, in a file that the user names."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.bench import printed
from reprokit.errors import UsageError


def test_a_folder_has_no_records(tmp_path: Path):
    with pytest.raises(UsageError, match=r"the records cannot be read: Is a directory$"):
        printed.read(tmp_path, "paper")
