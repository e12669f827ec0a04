"""Build output that imitates the builder, or has no end."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

import pytest

from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.image import classic
from reprokit.image.classic import stream_lines
from reprokit.image.lines import HALF, Lines
from tests.support.builds import Builds, root_file_system
from tests.support.names import unique


@pytest.fixture
def victim(engine: Engine, base: str) -> Iterator[str]:
    """A container of someone else."""
    container = engine.create_container(unique("victim"), {"Image": base, "Cmd": ["sleep", "600"]})
    engine.start(container)
    yield container
    if engine.container(container):
        engine.remove(container, force=True)


@pytest.fixture
def foreign(engine: Engine) -> Iterator[str]:
    """The ID of an image of someone else."""
    name = unique("foreign")
    engine.import_image(io.BytesIO(root_file_system(["true", "sh"])), name, "1", [])
    yield (engine.image(f"{name}:1") or {})["Id"]
    engine.remove_image(f"{name}:1", force=True)


@pytest.mark.engine
@pytest.mark.parametrize("end", [0, 3])
def test_a_step_that_names_a_container_does_not_remove_it(builds: Builds, engine, victim, monkeypatch, end: int):
    monkeypatch.setattr(classic, "_KILL_TIMEOUT_S", 0.5)
    forged = f"RUN echo one\nRUN echo ' ---> Running in {victim[:12]}'; exit {end}\n"
    if end:
        with pytest.raises(WorkFailed):
            builds(forged)
    else:
        builds(forged)
    assert engine.container(victim)["State"]["Running"]


@pytest.mark.engine
def test_a_step_that_names_an_image_does_not_keep_it(builds: Builds, engine, foreign: str):
    with pytest.raises(WorkFailed) as error:
        builds(f"RUN echo ' ---> {foreign.removeprefix('sha256:')[:12]}'; exit 3\n", keep_failed=True)
    assert engine.image(f"reprokit/{builds.target.label}--failed") is None
    assert "is not kept" in error.value.hint


@pytest.mark.engine
def test_a_log_is_bounded_and_has_the_failed_steps_end(builds: Builds, home, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_BUILD_LOG", "10000")
    with pytest.raises(WorkFailed) as error:
        many = "i=0; while [ $i -lt 3000 ]; do echo line $i of many; i=$((i+1)); done"
        builds(f"RUN echo first; {many}; echo last words; exit 3\n")
    (log,) = (home / "state" / "logs").iterdir()
    text = log.read_text()
    assert "first\n" in text and text.index("REPROKIT_LIMIT_BUILD_LOG") < text.index("last words\n")
    assert len(text) < 200_000 and text.endswith("# failed\n")
    assert str(log) in error.value.hint


def test_lines_keep_their_beginning_and_end():
    lines = Lines()
    assert list(lines.add("a\nb")) == ["a"]
    assert list(lines.add("c\n\nd\n")) == ["bc", "", "d"]
    assert list(lines.add("x" * (2 * HALF) + "\n")) == ["x" * 2 * HALF]
    assert list(lines.add("begin" + "x" * (2 * HALF))) == []
    assert list(lines.add("end\nnext")) == [f"begin{'x' * (HALF - 5)} [8 left out] {'x' * (HALF - 3)}end"]
    assert list(lines.end()) == ["next"] and list(lines.end()) == []


@pytest.mark.parametrize("block", ["y", "y" * 30_000, "10%\r"], ids=["small", "large", "bar"])
@pytest.mark.slow
def test_a_line_without_end_takes_little_memory_and_time(block: str):
    def events() -> Iterator[dict]:
        for _ in range(200_000 if len(block) < 9 else 2000):
            yield {"stream": block}
        yield {"stream": "last\n"}
        yield {"error": "e"}

    tracemalloc.start()
    try:
        found = list(stream_lines(events()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
    assert str(found[0]).endswith("last") and found[1:] == [{"error": "e"}]
