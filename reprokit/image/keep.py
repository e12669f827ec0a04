"""The last good state of a failed build, kept so that one can look around in it."""

from __future__ import annotations

from reprokit.engine import Engine
from reprokit.image import trust
from reprokit.image.context import context_tar
from reprokit.image.events import Failed
from reprokit.image.labels import FAILED, INPUTS, failed_name
from reprokit.recipe.find import Target


def keep_last_good(engine: Engine, target: Target, end: Failed, labels: dict[str, str]) -> str:
    """Tag the state before the failed step as `reprokit/NAME:VARIANT--failed`; returns a sentence about it."""
    if not end.last_good:
        return "there is no good state to keep"
    name = failed_name(target.label)
    marked = {key: value for key, value in labels.items() if key != INPUTS} | {FAILED: end.block}
    with context_tar({"Dockerfile": f"FROM {end.last_good}\n".encode()}) as context:
        for _ in engine.build(context, tag=name, labels=marked, rm=True, forcerm=True):
            pass
    if image := engine.image(name):
        trust.record(engine, image["Id"], "built here", "build --keep-failed")
    return f"the state before it is kept as {name}: `reprokit shell {target.label} --failed`"
