"""Real failures of builds, provoked one after the other, each named by its cause."""

from __future__ import annotations

import io
import re

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.explain.judge import explain
from reprokit.explain.last import read_log
from reprokit.image.events import Note
from tests.support.builds import Builds

pytestmark = pytest.mark.engine

COMPILING = """\
RUN echo 'ld: cannot find -lcuda'
RUN echo '[1/9] x.cc.o'; echo 'src/a.cc:3:10: fatal error: cutlass/cutlass.h: No such file or directory'; \\
    echo 'make: *** [Makefile:136: all] Error 2'; exit 2
"""
ONE_PROCESSOR = """\
RUN while read -r key value; do \\
        if [ "$key" = Cpus_allowed_list: ]; then [ "$value" = 0 ]; exit; fi; \\
    done < /proc/self/status
"""


def test_a_failed_build_ends_in_its_named_cause(builds: Builds):
    with pytest.raises(ReprokitError) as error:
        builds(COMPILING)
    log, _ = read_log()
    cause = explain(io.BytesIO(log), failed=True).causes[0]
    assert cause.rule == "cutlass-missing"
    assert error.value.explanation[0] == f"cause: {cause.cause}"
    assert b"-lcuda" not in log  # the output of steps that succeeded


def test_a_compiler_killed_for_memory_names_the_jobs_that_fit(builds: Builds, engine: Engine, monkeypatch):
    build = engine.build
    limits = {"memory": 32 << 20, "memswap": 32 << 20}
    monkeypatch.setattr(engine, "build", lambda file, **options: build(file, **options | {"container_limits": limits}))
    with pytest.raises(ReprokitError) as error:
        builds("RUN x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done\n")
    cause, remedy, _ = error.value.explanation
    assert cause.startswith("cause: too many compilers ran at once for the memory: the kernel killed")
    assert re.match(r"remedy: MAX_JOBS=\d+ reprokit build", remedy)


def test_a_step_has_as_many_processors_as_compilers_fit(builds: Builds, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setenv("MAX_JOBS", "1")
    builds(ONE_PROCESSOR)
    assert [note.text for note in builds.seen(Note) if "processors" in note.text] == [
        "building with 1 of 2 processors, as many compilers as fit into the memory"
    ]
