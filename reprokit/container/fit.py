"""Whether this host's driver and GPUs can run what an image was built for, said before its container starts."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from reprokit.container.gpu import GpuRefused
from reprokit.container.gpu_host import Gpu

_MIN_DRIVER = "reprokit.min-driver"
_CAPABILITIES = "reprokit.compute-capabilities"


def require_fit(labels: Mapping[str, str], gpus: list[Gpu]) -> str:
    """A warning, or "". Raises GpuRefused where the driver is older than the image can use.

    A GPU outside the list of compute capabilities may still run the image's code (by PTX, or a cubin of its major
    version); `reprokit check --gpu` tells. Nothing is said where nothing is known.
    """
    least = _version(labels.get(_MIN_DRIVER, ""))
    for gpu in gpus:
        driver = _version(gpu.driver)
        if least and driver and driver < least:
            raise GpuRefused(
                f"the NVIDIA driver {gpu.driver} is too old for this image, which needs {least}",
                gpu.name,
                f"update the driver to {least} or newer, or go on without a GPU: --gpus none",
            )
    meant = [c for c in labels.get(_CAPABILITIES, "").split(",") if c]
    for gpu in gpus:
        if meant and gpu.capability and gpu.capability not in meant:
            return (
                f"{gpu.name} has compute capability {gpu.capability}, the image is meant for {', '.join(meant)}: "
                f"see `reprokit check --gpu {gpu.capability}`"
            )
    return ""


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
