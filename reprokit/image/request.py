"""What a rendered variant requires of each kind of input."""

from __future__ import annotations

from reprokit.image.blocks import alone, bounds, wheel_checksums, wheel_requirements
from reprokit.image.platform import platform_of
from reprokit.image.render import Rendered
from reprokit.recipe.environment import conda_specs
from reprokit.recipe.find import Target
from reprokit.supply.kinds.kind import InputRequest


def request_of(target: Target, rendered: Rendered | None, machine: str) -> InputRequest:
    """What a variant requires of each kind of input. `machine` is the image's, such as `x86_64`.

    Without `rendered` it requires nothing of apt: only templates say what they install.
    """
    variant = target.variant.model_copy(update={"conda": conda_specs(target)})
    wheels = wheel_requirements(target)
    # Other variants may have no Python whose version is known.
    platform = platform_of(target, machine) if wheels or variant.sdists or variant.conda else None
    checksums = wheel_checksums(target)
    own = alone(target)
    installs = rendered.installs if rendered else ()
    return InputRequest(variant, machine, wheels, own, installs, platform, checksums=checksums, bounds=bounds(target))
