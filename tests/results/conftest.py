from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reprokit.results.record import Record
from tests.support.records import RECORD


@pytest.fixture
def record() -> Callable[..., Record]:
    """A believable record with the fields given changed."""
    return lambda **changes: replace(RECORD, **changes)
