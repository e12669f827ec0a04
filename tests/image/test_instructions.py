"""Instructions found by what a builder prints."""

from __future__ import annotations

from reprokit.image.events import Step
from reprokit.image.instructions import Instructions
from tests.support.builds import STAGES, rendered


def test_instructions_are_found_by_what_buildkit_prints():
    found = Instructions(rendered(STAGES))
    assert found.stages == ["", "base", "tvm", "tvm", "stage-2", "stage-2", "stage-2", "stage-2"]
    assert found.step("tvm", "RUN set -eu;     echo one;     echo /root") == Step(
        4, 8, "tvm", "RUN set -eu; echo one; echo /root"
    )
    assert found.step("stage-2", "RUN set -eu;     echo two").number == 8
    assert found.step("stage-2", "COPY --from=tvm /a /b").block == "later"
    assert found.step("base", "FROM docker.io/library/debian:12").number == 2
    assert Instructions(rendered("FROM x\nRUN a\n")).step("", "RUN a").number == 2
