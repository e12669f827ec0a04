"""Where a bundle is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.bundle.write import ExportJob, claim, write
from reprokit.errors import UsageError


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path):
    pipe = tmp_path / "x.rkit"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="the target is no regular file"):
        claim(pipe, pytest.fail)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_key_that_cannot_sign_is_reported_before_the_engine_works(tmp_path: Path):
    with pytest.raises(UsageError, match="the key cannot sign"):
        write(ExportJob(None, [], tmp_path / "no folder" / "x.rkit", key=tmp_path / "no key"))
