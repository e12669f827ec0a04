"""A failed build as one error: its block, the lines that name the cause, and who can fix it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from reprokit import paths
from reprokit.errors import EngineError, ReprokitError, SourceError, WorkFailed
from reprokit.explain.load import matcher
from reprokit.explain.model import Cause
from reprokit.image.events import Failed
from reprokit.image.progress import brief
from reprokit.recipe.find import Target
from reprokit.supply.gateway import Gateway

_LINES = 4
_LONGEST_LINE = 400
_LONGEST_STEP = 100
_PRODUCT = re.compile(r"expected (.+) (?:built|present|installed), found nothing")
# Builders print colours and step numbers before this text.
_MADE = re.compile(rb"reprokit: made ([^\n]{1,300})$", re.MULTILINE)
_MOST_MADE = 5


def build_error(
    target: Target, end: Failed, message: str, causes: Sequence[Cause], gateway: Gateway, output: bytes
) -> ReprokitError:
    """The error of a build whose failed step printed `output`.

    EngineError if the disk is full, SourceError for the network, the gateway's own error, else WorkFailed.
    """
    step = brief(end.step)
    step = step if len(step) <= _LONGEST_STEP else step[: _LONGEST_STEP - 3] + "..."
    lines = _excerpt(causes[0]) if causes else message.splitlines()
    text = "\n  ".join([f"{target.label}: block {end.block} failed: {step}", *lines])
    rules = [cause.rule for cause in causes]
    if "disk-full" in rules:
        return EngineError(
            f"the engine's disk is full\n  {text}", hint="free space there: `docker system df` shows what uses it"
        )
    if error := gateway.failure:
        return type(error)(f"{target.label}: block {end.block} failed: {error.message}", error.where, error.hint)
    if gateway.refused:
        named = [f"undeclared download: {name}" for name in sorted(gateway.refused)]
        text += "".join(f"\n  {line}" for line in named if line not in text)
        remedy = f"add it to the recipe (`files:` or `sources:`) or run `reprokit build --record {target.label}`"
        return WorkFailed(text, hint=remedy)
    if "reprokit-product" in rules[:1] and (product := _PRODUCT.search(causes[0].text)):
        made = [path.decode("utf-8", "replace") for path in _MADE.findall(output)]
        return _absent_product(target, end.block, product[1], made)
    if "reprokit-assertion" in rules[:1]:
        return WorkFailed(text)
    if gateway.missing:
        names = ", ".join(sorted(gateway.missing))
        return WorkFailed(text, hint=f"the recipe does not name what the build requested: {names}")
    rule = matcher().rules.get(rules[0]) if rules else None
    if rule is None or not rule.network:
        return WorkFailed(text)
    if not gateway.requests:
        hint = "no request reached reprokit's gateway: a step's only network is the proxy of `http_proxy`"
        return WorkFailed(text, hint=hint)
    return SourceError(text, hint="run it again: finished steps are in the layer cache")


def _absent_product(target: Target, block: str, product: str, made: Sequence[str]) -> WorkFailed:
    """The error for an entry of a block's `products` that does not exist. `made` are the programs and libraries."""
    where = paths.from_here(str(target.path))
    for index, use in enumerate(target.variant.blocks):
        products = use.options.get("products")
        if use.name == block and isinstance(products, list) and product in products:
            place = target.where(("blocks", index, block, "products", products.index(product)))
            where = paths.from_here(place)
            break
    if nearest := get_close_matches(product, made, n=1, cutoff=0.5):
        return WorkFailed(f"{target.label}: block {block} made {nearest[0]}, not {product}", where)
    hint = f"it made {', '.join(made[:_MOST_MADE])}" if made else ""
    return WorkFailed(f"{target.label}: block {block} did not make {product}", where, hint)


def _excerpt(cause: Cause) -> list[str]:
    """The line that matches a rule, else the lines around the first one that looks like an error."""
    lines = [text for number, text in cause.context if number >= cause.line and text.strip()]
    if cause.rule != "unexplained":
        lines = [cause.text]
    elif len(lines) < 2:  # the log's last line
        lines = [text for _, text in cause.context if text.strip()]
    return [line[:_LONGEST_LINE] for line in lines[:_LINES]]
