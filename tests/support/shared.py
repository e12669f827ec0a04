"""What several workers of one run use and one of them makes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder of this run, which all workers share."""
    folder = factory.getbasetemp()
    # Each worker has a folder of its own below the run's.
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@contextmanager
def shared(
    factory: pytest.TempPathFactory, name: str, make: Callable[[], str], remove: Callable[[str], None]
) -> Iterator[str]:
    """The value of `make`, called by the first worker that enters; the last one to leave calls `remove` with it."""
    file = run_folder(factory) / f"shared-{name}.json"
    lock = FileLock(file.with_suffix(".lock"))
    with lock:
        value, users = json.loads(file.read_text()) if file.exists() else (make(), 0)
        file.write_text(json.dumps([value, users + 1]))
    try:
        yield value
    finally:
        with lock:
            value, users = json.loads(file.read_text())
            if users == 1:
                file.unlink()
                remove(value)
            else:
                file.write_text(json.dumps([value, users - 1]))
