"""A failed step as one error: which block, its first causal lines, and whose fault it is."""

from __future__ import annotations

from reprokit.errors import EngineError, ReprokitError, SourceError, WorkFailed
from reprokit.image.events import Failed
from reprokit.image.failure import Extractor
from reprokit.image.progress import brief
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway

_LONGEST_STEP = 100


def explain(target: Target, end: Failed, message: str, extractor: Extractor, gateway: Gateway) -> ReprokitError:
    """WorkFailed; EngineError where the disk is full; SourceError for the network."""
    step = brief(end.step)
    step = step if len(step) <= _LONGEST_STEP else step[: _LONGEST_STEP - 3] + "..."
    lines = extractor.first() or message.splitlines()
    text = "\n  ".join([f"{target.label}: block {end.block} failed: {step}", *lines])
    if extractor.no_space or "no space left" in message.lower():
        return EngineError(
            f"the engine's disk is full\n  {text}", hint="free space there; `docker system df` shows what takes it"
        )
    if gateway.refused:
        text += "".join(f"\n  undeclared download: {name}" for name in sorted(gateway.refused))
        remedy = f"add it to the recipe (`files:` or `sources:`) or run `reprokit build --record {target.label}`"
        return WorkFailed(text, hint=remedy)
    if extractor.assertions:
        return WorkFailed(text)
    if gateway.missing:
        names = ", ".join(sorted(gateway.missing))
        return WorkFailed(text, hint=f"the build asked for what the recipe does not name: {names}")
    if extractor.network and not gateway.requests:
        return WorkFailed(
            text,
            hint="no request reached reprokit's gateway: a step has the network only through the proxy of `http_proxy`",
        )
    if extractor.network:
        return SourceError(text, hint="run it again: what is done stays in the layer cache")
    return WorkFailed(text)
