"""Builds by a real engine: what they make, keep and log, how they fail and how they are stopped."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import ContainerInfo, Engine
from reprokit.errors import ReprokitError, SourceError, WorkFailed
from reprokit.explain.judge import explain
from reprokit.explain.last import read_log
from reprokit.image import trust
from reprokit.image.events import BuildStep, OutputLine
from reprokit.image.lines import HALF, Lines
from reprokit.image.run import BuildRun
from tests.support.builds import Builds
from tests.support.names import unique
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.processes import send_when_asleep, sleeping
from tests.support.waiting import wait_for

MADE = "# block tool\nENV TOOL=1\nRUN echo made >/made; echo some output; printf '1%%\\r99%%'\n"
BROKEN = """\
# block later
RUN echo half >/half; echo '[1/9] x.cc.o'; \\
    echo 'src/a.cc:3:10: fatal error: cutlass/cutlass.h: No such file or directory'; \\
    echo 'make: *** [Makefile:136: all] Error 2'; exit 2
"""
ONE_PROCESSOR = """\
RUN while read -r key value; do \\
        if [ "$key" = Cpus_allowed_list: ]; then [ "$value" = 0 ]; exit; fi; \\
    done < /proc/self/status
"""


def test_an_image_is_described_logged_and_built_once(builds: Builds, engine: Engine, inside, home: Path):
    result = builds(MADE)
    assert result.built and result.name == f"reprokit/{builds.target.label}"
    assert ("tool", MADE.splitlines()[2]) in [(s.block, s.text) for s in builds.seen(BuildStep)]
    assert builds.seen(OutputLine) == [OutputLine("some output"), OutputLine("99%")]
    config = engine.image(result.name).config
    labels = {k.removeprefix("reprokit."): v for k, v in config["Labels"].items()}
    assert labels["recipe"] == builds.target.recipe.name and labels["variant"] == "v"
    assert labels["inputs"] == result.inputs and len(result.inputs) == 64
    assert json.loads(labels["pins"]) == {"python": "3.11"}
    base = builds.target.variant.base
    base_label = {"reference": base, "digest": "", "how": "engine", "id": engine.image(base).id}
    assert json.loads(labels["base"]) == base_label
    assert labels["min-driver"] == "450.80.02" and labels["compute-capabilities"] == "8.0"
    assert "TOOL=1" in config["Env"] and inside(result.name, "cat /made") == "made\n"

    assert result.log.parent == home / "state" / "logs"
    log = result.log.read_text().splitlines()
    assert log[0].startswith(f"# {builds.target.label}, inputs {result.inputs}") and log[-1] == "# built"
    assert "some output" in "\n".join(log)
    record = json.loads(result.record.read_text())
    assert record["result"] == "built" and record["image"] == result.image_id
    assert record["inputs"] == result.inputs and record["base"]["how"] == "engine"
    assert record["hosts_asked"] == {}

    again = builds(MADE)
    assert not again.built and again.image_id == result.image_id and again.log is None
    assert not builds.seen(BuildStep)
    recorded = builds(MADE, record=True, no_cache=True)
    assert recorded.built and (recorded.name, recorded.image_id) == ("", "")
    assert OutputLine("some output") in builds.events
    assert engine.image(result.name).id == result.image_id
    # The gateway has another password in each build: a step is the same.
    assert builds(MADE + "ENV MORE=1\n").inputs != result.inputs
    (step,) = (each for each in builds.seen(BuildStep) if each.text.startswith("RUN echo made"))
    assert step.cached


def test_a_failed_step_names_its_block_and_cause_and_what_it_left_is_kept(
    builds: Builds, engine: Engine, inside, home: Path
):
    made = MADE.replace("some output", "ld: cannot find -lcuda")
    with pytest.raises(WorkFailed) as error:
        builds(made + BROKEN, keep_failed=True)
    first, *causes = error.value.message.splitlines()
    assert f"{builds.target.label}: block later failed: RUN echo" in first
    assert causes == ["  src/a.cc:3:10: fatal error: cutlass/cutlass.h: No such file or directory"]
    (log,) = (home / "state" / "logs").iterdir()
    assert str(log) in error.value.hint and "make: *** [Makefile:136: all] Error 2" in log.read_text()
    (record,) = (home / "state" / "builds").iterdir()
    assert json.loads(record.read_text())["block"] == "later"
    assert engine.image(f"reprokit/{builds.target.label}") is None
    marks = [f"TEST={builds.target.recipe.name}" in (c.config["Env"] or ()) for c in _containers(engine)]
    assert not any(marks), "a container is left"
    output, _ = read_log()
    cause = explain(io.BytesIO(output), failed=True).causes[0]
    assert cause.rule == "cutlass-missing" and error.value.explanation[0] == f"cause: {cause.sentence}"
    assert b"-lcuda" not in output, "the output of a step that succeeded"
    name = f"reprokit/{builds.target.label}--failed"
    assert f"`reprokit shell {builds.target.label} --failed`" in error.value.hint
    labels = engine.image(name).labels
    assert labels["reprokit.failed"] == "later" and "reprokit.inputs" not in labels
    assert inside(name, "cat /made /half") == "made\nhalf\n"


def _containers(engine: Engine) -> Iterator[ContainerInfo]:
    return filter(None, (engine.container(each.id) for each in engine.containers([])))


def test_a_compiler_killed_for_memory_names_the_jobs_that_fit(builds: Builds, engine: Engine, monkeypatch):
    monkeypatch.setattr(BuildRun, "_limits", lambda run: {"Memory": 32 << 20, "MemorySwap": 32 << 20})
    with pytest.raises(ReprokitError) as error:
        builds("RUN x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done\n")
    cause, remedy, _ = error.value.explanation
    assert cause.startswith("cause: too many compilers ran at once for the memory: the kernel killed")
    assert re.match(r"remedy: MAX_JOBS=\d+ reprokit build", remedy)


def test_a_step_has_as_many_processors_as_compilers_fit(builds: Builds, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setenv("MAX_JOBS", "1")
    builds(ONE_PROCESSOR)
    assert [note for note in builds.notes if "processors" in note] == [
        "building with 1 of 2 processors, as many compilers as fit into the memory"
    ]


class _Meeting(list):
    """The events of two builds. The one that is first goes on once the other one waits."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def append(self, event) -> None:
        super().append(event)
        if isinstance(event, BuildStep):
            wait_for(lambda: any("waiting for it" in note for note in self.notes))


def test_an_image_whose_steps_cannot_be_pushed_is_built_here(builds: Builds, engine: Engine):
    with pytest.raises(SourceError):
        builds(MADE, cache_to=f"127.0.0.1:{free_port()}/steps")
    assert trust.state(engine.image(f"reprokit/{builds.target.label}").id) == "built here"
    assert not builds(MADE).built


def test_two_builds_of_one_recipe(builds: Builds):
    results = []
    builds.events = _Meeting(builds.notes)
    threads = [threading.Thread(target=lambda: results.append(builds(MADE, engine=Engine.connect()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.built for r in results) == [False, True]
    assert results[0].image_id == results[1].image_id
    assert f"another build of {builds.target.label} is running; waiting for it" in builds.notes


def test_a_log_is_bounded_and_has_the_failed_steps_end(builds: Builds, home: Path, monkeypatch):
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


@pytest.mark.parametrize(
    ("block", "count"),
    [("y" * 30, 100_000), ("y" * 30_000, 200), ("10%\r" * 30, 20_000)],
    ids=["small", "large", "bar"],
)
@pytest.mark.slow
def test_a_line_without_end_takes_little_memory(block: str, count: int):
    tracemalloc.start()
    try:
        lines = Lines()
        assert [line for _ in range(count) for line in lines.add(block)] == []
        (line,) = lines.add("last\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
    assert line.endswith("last")


# The command line as it is, but for what it builds.
DRIVER = """
import sys
from pathlib import Path
from reprokit import cli
from reprokit.image import build
from tests.support.builds import rendered, target_of
from reprokit.recipe import find
name, base, dockerfile = sys.argv[1:]
find.target = lambda text: target_of(name, base)
build.render = lambda target: rendered("ARG BASE\\nFROM ${BASE}\\n" + dockerfile)
sys.argv = ["reprokit", "build", name, "--force"]
cli.main()
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_signal_stops_the_build_at_the_engine(engine, base, tmp_path, sent: int, code: int):
    name, seconds = unique("build"), str(1_000_000 + uuid.uuid4().int % 1_000_000)
    image = engine.image(base).id
    steps = lambda: [each for each in engine.containers([]) if each.image == image]  # noqa: E731
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, name, base, f"RUN sleep {seconds}\n"],
        env={**os.environ, "REPROKIT_HOME": str(tmp_path)},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: sleeping(seconds))
    assert len(steps()) == 1
    send_when_asleep(process.pid, sent)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == code and "Traceback" not in errors, errors
    wait_for(lambda: not sleeping(seconds) and not steps())
    assert engine.image(f"reprokit/{name}:v") is None
    (log,) = (tmp_path / "state" / "logs").iterdir()
    assert sent == signal.SIGKILL or log.read_text().splitlines()[-1] == "# interrupted"
