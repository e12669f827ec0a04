"""Where fuzzed parsers may write, and what watches them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fuzzing import Watch, watched


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        found = tmp_path_factory.mktemp("fuzz")
        patch.setenv("REPROKIT_HOME", str(found / "home"))
        patch.chdir(found)
        yield found


@pytest.fixture(scope="module")
def watch(folder: Path) -> Iterator[Watch]:
    with watched(folder) as found:
        yield found
