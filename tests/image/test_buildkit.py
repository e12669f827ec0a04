"""BuildKit's progress as events."""

from __future__ import annotations

import os

import pytest

from reprokit.image import buildkit
from reprokit.image.buildkit import Instructions, ProgressReader
from reprokit.image.events import BuildPlan, BuildStep, Cached, Failed, Note, OutputLine
from tests.support.builds import STAGES, rendered


def test_buildkits_progress_becomes_events():
    reader = ProgressReader(Instructions(rendered(STAGES)))
    lines = """\
#3 [internal] load metadata for docker.io/library/debian:12
#3 DONE 0.0s
#4 [base 1/1] FROM docker.io/library/debian:12
#4 CACHED
#5 [tvm 1/1] RUN set -eu;     echo one;     echo /root
#6 [stage-2 1/3] COPY --from=tvm /a /b
#5 0.411 one
#6 0.2 copying
#5 0.5 tail
#5 ERROR: executor failed running [/bin/sh -c x]: exit code: 3
------
 > [tvm 1/1] RUN:
------""".splitlines()
    events = [event for line in lines for event in reader.read(line)]
    tvm, copy = (
        BuildStep(4, 8, "tvm", "RUN set -eu; echo one; echo /root"),
        BuildStep(6, 8, "later", "COPY --from=tvm /a /b"),
    )
    assert events[1:] == [
        Cached(), tvm, copy, tvm, OutputLine("one"), copy, OutputLine("copying"), tvm, OutputLine("tail"),
    ]  # fmt: skip
    assert reader.failed == Failed("tvm", tvm.text, "executor failed running [/bin/sh -c x]: exit code: 3")


def test_instructions_are_found_by_what_buildkit_prints():
    found = Instructions(rendered(STAGES))
    assert found.stages == ["", "base", "tvm", "tvm", "stage-2", "stage-2", "stage-2", "stage-2"]
    assert found.step("tvm", "RUN set -eu;     echo one;     echo /root") == BuildStep(
        4, 8, "tvm", "RUN set -eu; echo one; echo /root"
    )
    assert found.step("stage-2", "RUN set -eu;     echo two").number == 8
    assert found.step("stage-2", "COPY --from=tvm /a /b").block == "later"
    assert found.step("base", "FROM docker.io/library/debian:12").number == 2
    assert Instructions(rendered("FROM x\nRUN a\n")).step("", "RUN a").number == 2


def test_compilers_that_do_not_fit_are_told(monkeypatch: pytest.MonkeyPatch):
    """The CLI has no limit for them."""
    monkeypatch.setattr(buildkit, "find_cli", lambda: ["docker"])
    monkeypatch.setattr(buildkit, "fitting_jobs", lambda processors: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    plan = BuildPlan("x", rendered(STAGES), "sha256:1", "base", {}, {}, {})
    first = next(buildkit.BuildKit(None).run(plan))
    assert isinstance(first, Note) and "room for 1 compilers at once, and BuildKit starts 3" in first.text
