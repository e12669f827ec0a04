"""What every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write tests/golden from what is rendered now")


@pytest.fixture
def golden(request):
    """`golden(name, text)` compares with tests/golden/NAME, or writes it under --update-golden."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{name} is missing: run pytest --update-golden and read what it writes"
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The machine's engine. Without one a test is skipped, except where CI or REPROKIT_REQUIRE_ENGINE is set."""
    try:
        return Engine.connect()
    except EngineError as error:
        if os.environ.get("CI") or os.environ.get("REPROKIT_REQUIRE_ENGINE"):
            raise
        pytest.skip(f"no engine: {error.message}")
