"""Commands end at their limits of time and output, whatever the image's shell does."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprokit.container import attach
from reprokit.container.execute import execute
from reprokit.container.log import log_path
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from tests.support.builds import TOOLS, root_file_system
from tests.support.names import unique
from tests.support.processes import sleeping
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

Start = Callable[[str], str]


@pytest.fixture(scope="module")
def image(engine: Engine) -> Iterator[str]:
    """An image whose programs belong to its user."""
    name = unique("shells")
    engine.import_image(io.BytesIO(root_file_system([*TOOLS, "dash", "grep", "chmod"])), name, "1", ["ENV PATH=/bin"])
    yield f"{name}:1"
    engine.remove_image(f"{name}:1", force=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))


@pytest.fixture
def start(engine: Engine, image: str) -> Iterator[Start]:
    """`start(shell)`: a container whose `sh` has these lines."""
    started: list[str] = []

    def run(shell: str) -> str:
        container = engine.create_container(unique("shell"), {"Image": image, "User": "0:0", "Cmd": ["sleep", "900"]})
        started.append(container)
        engine.start(container)
        if shell:
            script = f"rm /bin/sh; echo '#!/bin/dash' > /bin/sh; echo '{shell}' >> /bin/sh; chmod 755 /bin/sh"
            assert execute(engine, container, ["dash", "-c", script], logged=False).exit_code == 0
        return container

    yield run
    for container in started:
        if engine.container(container):
            engine.remove(container, force=True)


@pytest.mark.parametrize("shell", ["exec sleep 800", "exit 0", "exit 1", "exec cat /dev/zero", "rm /bin/sh"])
def test_a_shell_that_signals_nobody(engine: Engine, start: Start, monkeypatch: pytest.MonkeyPatch, shell: str):
    monkeypatch.setattr(attach, "_SHELL_SECONDS", 1.0, raising=False)
    monkeypatch.setattr(attach, "_INTERRUPT_SECONDS", 0.5)
    monkeypatch.setattr(attach, "_EXIT_CODE_TRIES", 20)
    container, seconds = start(shell), str(1_000_000 + uuid.uuid4().int % 1_000_000)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(execute, engine, container, ["sleep", seconds], logged=False, timeout=0.5)
        try:
            assert done.result(timeout=200).timed_out
            wait_for(lambda: not sleeping(seconds))
        finally:
            engine.remove(container, force=True)


def test_a_shell_of_the_usual_kind_leaves_the_container_alone(engine: Engine, start: Start):
    container, seconds = start(""), str(1_000_000 + uuid.uuid4().int % 1_000_000)
    assert execute(engine, container, ["sleep", seconds], logged=False, timeout=0.5).timed_out
    assert not sleeping(seconds)
    assert execute(engine, container, ["cat", "/proc/1/cmdline"], logged=False).stdout == "sleep\0900\0"


def test_a_command_ends_when_it_has_written_too_much(
    engine: Engine, start: Start, home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", str(1 << 20))
    container = start("")
    much = ["sh", "-c", "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(execute, engine, container, much)
        try:
            with pytest.raises(WorkFailed, match="wrote more than 1 MiB"):
                done.result(timeout=200)
            assert (
                "yyy" not in execute(engine, container, ["sh", "-c", "cat /proc/[0-9]*/cmdline"], logged=False).stdout
            )
        finally:
            engine.remove(container, force=True)
    assert log_path(container).stat().st_size < 4 << 20
