"""What a host lacks for a variant."""

from __future__ import annotations

import pytest

from reprokit.recipe.model import Requires
from reprokit.smoke.host import lacks

GIB = 1 << 30
NEEDS = Requires(gpu="required", memory="8GiB", disk="24GiB")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requires", "has_gpu", "memory", "disk", "reason"),
    [
        (NEEDS, True, 8 * GIB, 24 * GIB, ""),
        (NEEDS, True, None, None, ""),
        (NEEDS, False, 8 * GIB, 24 * GIB, "it requires a GPU, and here is none"),
        (NEEDS, True, 4 * GIB, 24 * GIB, "it requires 8.0 GiB of memory, and here are 4.0 GiB"),
        (NEEDS, True, 8 * GIB, 1 * GIB, "it requires 24.0 GiB of free disk, and here are 1.0 GiB"),
        (Requires(gpu="optional"), False, 1, 1, ""),
    ],
)
def test_a_host_lacks_what_is_required(requires, has_gpu, memory, disk, reason):
    assert lacks(requires, has_gpu, memory, disk) == reason
