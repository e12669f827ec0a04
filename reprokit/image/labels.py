"""The names and labels of reprokit's images."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from reprokit import __version__
from reprokit.engine import LABEL
from reprokit.errors import UsageError
from reprokit.host.fit import ImageNeeds
from reprokit.untrusted.documents import parsed

if TYPE_CHECKING:
    from reprokit.image.inputs import Inputs
    from reprokit.recipe.find import Target

INPUTS = f"{LABEL}.inputs"
# The hash of the Dockerfile alone, for images without a lock: their inputs are known only after resolution.
DOCKERFILE = f"{LABEL}.dockerfile"
FAILED = f"{LABEL}.failed"

# The form of names of recipes and variants. `base` was the name of base images in earlier versions.
_PART = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
_RECIPE_IMAGE = re.compile(rf"reprokit/(?!base:){_PART}:{_PART}")
_CONTAINER_IMAGE = re.compile(rf"container/{_PART}:latest")
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::\d+)?/)?(?:[a-z0-9][a-z0-9._-]*/)*[a-z0-9][a-z0-9._-]*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
)
_LONGEST = 255


@dataclass(frozen=True)
class ImageLabels:
    """The labels of a recipe's image; "" if one is missing. Anyone can write labels."""

    recipe: str
    variant: str
    inputs: str
    dockerfile: str
    lock: str
    forced: bool
    drift: bool
    needs: ImageNeeds

    @property
    def target(self) -> str:
        """NAME:VARIANT."""
        return f"{self.recipe}:{self.variant}"

    @classmethod
    def read(cls, labels: Mapping[str, str]) -> ImageLabels:
        """Malformed pins count as none."""

        def value(key: str) -> str:
            return labels.get(f"{LABEL}.{key}", "")

        try:
            pins = parsed(value("pins"))
        except (ValueError, UsageError):
            pins = {}
        needs = ImageNeeds(
            {str(name): str(pin) for name, pin in pins.items()} if isinstance(pins, dict) else {},
            value("min-driver"),
            tuple(filter(None, value("compute-capabilities").split(","))),
        )
        return cls(
            recipe=value("recipe"),
            variant=value("variant"),
            inputs=value("inputs"),
            dockerfile=value("dockerfile"),
            lock=value("lock"),
            forced=bool(value("forced")),
            drift=bool(value("drift")),
            needs=needs,
        )


def image_name(target: Target) -> str:
    """`reprokit/NAME:VARIANT`."""
    return f"reprokit/{target.label}"


def failed_name(label: str) -> str:
    """The name of the image that a failed step of NAME:VARIANT left. No variant's name contains two dashes in a row."""
    return f"reprokit/{label}--failed"


def kind_of_name(name: str) -> Literal["recipe", "foreign", "reserved"]:
    """Which images may get the name `REPOSITORY:TAG`.

    recipe: an image of a recipe or a container snapshot. foreign: another image, if the user consents. reserved: no
    image from outside, as the name is reprokit's own or invalid.
    """
    if len(name) > _LONGEST or not _IMAGE.fullmatch(name) or ".." in name:
        return "reserved"
    if _RECIPE_IMAGE.fullmatch(name) or _CONTAINER_IMAGE.fullmatch(name):
        return "recipe"
    # Names may omit Docker Hub's host and podman's `localhost`.
    path = re.sub(r"^((registry-1|index)\.)?docker\.io/|^localhost/", "", name, flags=re.IGNORECASE)
    return "reserved" if re.match(r"(library/)?reprokit[^a-z0-9]", path) else "foreign"


def labels(target: Target, inputs: Inputs, forced: list[str]) -> dict[str, str]:
    """Everything about the image that a host needs without its recipe.

    `forced` are the errors of `check` that `--force` ignored.
    """
    variant, base = target.variant, inputs.base
    values: dict[str, Any] = {
        "recipe": target.recipe.name,
        "variant": target.variant_name,
        "inputs": inputs.hash,
        "dockerfile": inputs.rendered.digest,
        "pins": variant.pins,
        "version": __version__,
        "min-driver": variant.requires.driver or minimum_driver(variant.pins.get("cuda")),
        "compute-capabilities": ",".join(variant.requires.compute_capability),
        "gpu": variant.requires.gpu,
        "base": {"reference": base.reference, "digest": base.digest, "how": base.how, "id": base.image_id},
    }
    if inputs.lock:
        values["lock"] = inputs.lock.hash
    if inputs.drift:
        values["drift"] = list(inputs.drift)
    if forced:
        values["forced"] = forced
    own = {
        f"{LABEL}.{key}": value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in values.items()
    }
    return {key: _printable(value) for key, value in {**own, **_standard_labels(target, inputs)}.items()}


def _standard_labels(target: Target, inputs: Inputs) -> dict[str, str]:
    """The labels of the OCI image specification (annotations.md). Empty ones hide the base's."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    paper = target.recipe.paper
    try:
        licence = str(canonicalize_license_expression(paper.licence))  # an SPDX expression, or no label
    except InvalidLicenseExpression:
        licence = ""
    values = {
        "title": target.label,
        "description": f"{paper.title} ({paper.venue} {paper.year})",
        "url": paper.urls.get("paper", ""),
        "source": paper.urls.get("code", ""),
        "licenses": licence,
        "version": inputs.hash[:12],
        "ref.name": target.label,
        "base.name": inputs.base.reference.partition("@")[0],
        "base.digest": inputs.base.digest,
    }
    return {f"org.opencontainers.image.{key}": value for key, value in values.items()}


def _printable(text: str) -> str:
    """The text with plain spaces and without soft hyphens and the like, which copied titles have."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def minimum_driver(cuda: str | None) -> str:
    """The oldest NVIDIA driver that runs programs of this CUDA, empty if no fact has it.

    From CUDA 11 on that is the driver of the major version's first release (minor-version compatibility).
    """
    if not cuda:
        return ""
    from reprokit.compat.facts import bundled

    toolkits = bundled().cuda.toolkits
    release = ".".join(cuda.split(".")[:2])
    toolkit = toolkits.get(release) or next((t for name, t in toolkits.items() if name.split(".")[0] == cuda), None)
    return (toolkit.family_driver_min or toolkit.driver_min or "") if toolkit else ""
