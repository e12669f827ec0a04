"""What this host says of its GPUs: device files, and the files of CDI. What follows from it is in `gpu`."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from reprokit.container.gpu import GpuSupport, support_of
from reprokit.host.probe import driver_version
from reprokit.untrusted.documents import parsed

# A card that fell off the bus makes nvidia-smi hang for minutes.
_SMI_SECONDS = 5.0
QUERY = "name,driver_version,compute_cap"
# The control device of the driver, and WSL's.
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")


def support(info: Mapping[str, Any]) -> GpuSupport:
    """What the engine of `info` offers, by the CDI files of this host where the engine lists none."""
    return support_of(info, cdi_devices(info.get("CDISpecDirs") or ()))


def has_gpu(offered: GpuSupport) -> bool:
    """Whether asking for a GPU can work: a driver's device file, or a CDI device."""
    return bool(offered.cdi) or any(Path(file).exists() for file in DEVICE_FILES)


def cdi_devices(folders: Iterable[str]) -> tuple[str, ...]:
    """Names such as `nvidia.com/gpu=0` from the CDI files of `folders`; unreadable ones are passed over."""
    names: list[str] = []
    for folder in folders:
        for file in sorted(Path(folder).glob("*.*")):
            with contextlib.suppress(OSError, ValueError):
                names += devices_of(file.name, file.read_text())
    return tuple(dict.fromkeys(names))


def devices_of(file: str, text: str) -> list[str]:
    """The names in one CDI file. Raises ValueError where it is none."""
    try:
        spec = _parsed(PurePath(file).suffix, text)
        return [f"{spec['kind']}={device['name']}" for device in spec["devices"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} describes no devices: {error}") from None


def _parsed(suffix: str, text: str) -> Any:
    if suffix == ".json":
        return parsed(text)
    if suffix not in (".yaml", ".yml"):
        raise ValueError(suffix)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi; what it does not tell is ""."""

    name: str
    driver: str
    capability: str


def host_gpus(command: str = "nvidia-smi") -> list[Gpu]:
    """The host's GPUs; none where nvidia-smi is missing, fails or takes too long."""
    query = [command, f"--query-gpu={QUERY}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        # Old ones know no compute_cap; the driver's version is told elsewhere, too.
        driver = driver_version(command)
        return [Gpu("", driver, "")] if driver else []
    return gpus_of(answer.stdout)


def gpus_of(answer: str) -> list[Gpu]:
    """From nvidia-smi's answer to `QUERY`, without a header."""
    lines = [[part.strip() for part in line.split(",")] for line in answer.splitlines()]
    return [Gpu(*parts) for parts in lines if len(parts) == 3]
