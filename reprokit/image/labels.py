"""The labels of reprokit's images, by which other commands know them."""

from __future__ import annotations

import json
from typing import Any

from reprokit import __version__
from reprokit.engine import LABEL
from reprokit.image.inputs import Inputs
from reprokit.recipe.find import Target

INPUTS = f"{LABEL}.inputs"
FAILED = f"{LABEL}.failed"


def image_name(target: Target) -> str:
    """`reprokit/NAME:VARIANT`."""
    return f"reprokit/{target.label}"


def failed_name(target: Target) -> str:
    """What `--keep-failed` calls the last good state."""
    return f"reprokit/{target.label}-failed"


def labels(target: Target, inputs: Inputs, forced: list[str]) -> dict[str, str]:
    """Everything that a host must know of the image without asking the recipe.

    `forced` are the findings that `--force` went past.
    """
    variant, base = target.variant, inputs.base
    found: dict[str, Any] = {
        "recipe": target.recipe.name,
        "variant": target.variant_name,
        "inputs": inputs.hash,
        "pins": variant.pins,
        "version": __version__,
        "min-driver": variant.requires.driver or minimum_driver(variant.pins.get("cuda")),
        "compute-capabilities": ",".join(variant.requires.compute_capability),
        "gpu": variant.requires.gpu,
        "base": {"reference": base.reference, "digest": base.digest, "how": base.how, "id": base.image_id},
    }
    if inputs.lock:
        found["lock"] = inputs.lock.hash
    if inputs.drift:
        found["drift"] = list(inputs.drift)
    if forced:
        found["forced"] = forced
    return {
        f"{LABEL}.{key}": value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in found.items()
    }


def minimum_driver(cuda: str | None) -> str:
    """The lowest NVIDIA driver that runs programs of this CUDA, empty where no fact says it.

    From CUDA 11 on that is the driver of the major version's first release (minor version compatibility).
    """
    if not cuda:
        return ""
    from reprokit.compat.facts import bundled

    toolkits = bundled()["cuda"]["toolkits"]
    release = ".".join(cuda.split(".")[:2])
    known = toolkits.get(release) or next((t for name, t in toolkits.items() if name.split(".")[0] == cuda), None)
    return str(known["family_driver_min"] or known["driver_min"] or "") if known else ""
