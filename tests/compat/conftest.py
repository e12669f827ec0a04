from __future__ import annotations

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from tests.support.stacks import Check, stack


@pytest.fixture
def check() -> Check:
    return lambda *args, **kwargs: evaluate(bundled(), stack(*args, **kwargs))
