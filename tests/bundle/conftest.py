"""Images that the tests of bundles share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from tests.support.images import Images, noise


@pytest.fixture(scope="session")
def images(engine: Engine) -> Iterator[Images]:
    made = Images(engine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def base(images: Images) -> str:
    return images.base("base", {"bin/a": noise(3 << 20, 1)}, ["ENV PATH=/bin:/opt/x", "WORKDIR /w", "USER 7"])


@pytest.fixture(scope="session")
def two(images: Images, base: str) -> tuple[str, str]:
    """Two images of a common base, each with layers of its own."""
    left = images.on(base, "left", [{"l/one": noise(1 << 20, 20)}, {"l/two": noise(1 << 20, 300)}])
    right = images.on(base, "right", [{"r/one": noise(2 << 20, 50)}], "LABEL x=y")
    return left, right


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What `reprokit` of this test takes for $REPROKIT_HOME."""
    return tmp_path / "home"


@pytest.fixture
def reprokit(home: Path, tmp_path: Path) -> Callable[..., str]:
    """`reprokit(*arguments, code=0)` runs the command where nothing else is, and returns what it wrote."""

    def run(*arguments: object, code: int = 0) -> str:
        (tmp_path / "here").mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "reprokit", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path / "here",
            env={**os.environ, "REPROKIT_HOME": str(home)},
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return run
