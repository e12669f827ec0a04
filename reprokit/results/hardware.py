"""Whether records are from the hardware that a claim is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reprokit.compat.facts import Facts
from reprokit.compat.gpu import parse_gpu
from reprokit.errors import UsageError
from reprokit.recipe.claim import Claim

_COUNTED = re.compile("(?:([0-9]{1,4})x )?(.*)", re.DOTALL)
# A slice has a seventh of a GPU and more.
_PART = re.compile(r"\bMIG \S+", re.IGNORECASE)


def other_hardware(claim: Claim, identity: Mapping[str, Any], facts: Facts) -> str:
    """Why the hardware of records with this identity is not the claim's, or "".

    A number of a CPU that the claim does not name says nothing about this one; a ratio may.
    """
    gpu, cpu = identity["gpu"], identity["cpu"]
    claimed = f"claimed for {claim.hardware}"
    if gpu and claim.gpu == "none":
        return f"measured on a GPU ({gpu}), {claimed}"
    if not gpu and claim.gpu not in ("", "none"):
        return f"measured on a CPU ({cpu}), {claimed}"
    ratio = claim.baseline is not None and claim.baseline.value is None
    if not set(_words(claim.cpu)) <= set(_words(cpu)) or (claim.gpu == "none" and not claim.cpu and not ratio):
        return f"measured on {cpu or 'an unknown CPU'}, {claimed}"
    if claim.gpu in ("", "none", "any") or _fits(claim.gpu, gpu, facts):
        return ""
    return f"measured on {gpu}, {claimed}"


def _words(cpu: str) -> list[str]:
    return re.sub(r"\((?:r|tm)\)", " ", cpu.lower()).split()


def _fits(claimed: str, measured: str, facts: Facts) -> bool:
    """Whether all measured GPUs are of the claimed kind, and enough."""
    (count, kind), *others = _gpus(claimed, facts)
    found = _gpus(measured, facts)
    return not others and {name for _, name in found} == {kind} and sum(number for number, _ in found) >= count


def _gpus(text: str, facts: Facts) -> list[tuple[int, str]]:
    """How many of each kind there are in a text such as `8x A100, T4`."""
    found = []
    for part in text.split(", "):
        counted = _COUNTED.fullmatch(part)
        assert counted, "it matches any text"
        found.append((int(counted[1] or 1), _name(counted[2], facts)))
    return found


def _name(text: str, facts: Facts) -> str:
    try:
        gpu = parse_gpu(facts, text)
    except UsageError:
        return text.lower()
    part = _PART.search(text)
    return (gpu.name if gpu else "none") + (f" {part[0].lower()}" if part else "")
