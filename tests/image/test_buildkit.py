"""BuildKit's progress as events."""

from __future__ import annotations

from reprokit.image.buildkit import ProgressReader
from reprokit.image.events import Cached, Failed, Output, Step
from reprokit.image.instructions import Instructions
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
    tvm, copy = Step(4, 8, "tvm", "RUN set -eu; echo one; echo /root"), Step(6, 8, "later", "COPY --from=tvm /a /b")
    assert events[1:] == [
        Cached(), tvm, copy, tvm, Output("one"), copy, Output("copying"), tvm, Output("tail"),
    ]  # fmt: skip
    assert reader.failed == Failed("tvm", tvm.text, "executor failed running [/bin/sh -c x]: exit code: 3")
