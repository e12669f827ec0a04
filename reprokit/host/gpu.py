"""GPUs of a machine: nvidia-smi, the driver's version, device files, and the files of CDI."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from reprokit.errors import UsageError
from reprokit.host.command import Flood, run
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import COMMAND_ANSWER

CDI_KIND = "nvidia.com/gpu"
QUERY = "name,driver_version,compute_cap"
# The control device of the driver, and WSL's.
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
_MODULE = Path("/sys/module/nvidia/version")
_SMI_SECONDS = 5.0  # nvidia-smi hangs for minutes when a card fell off the bus


@dataclass(frozen=True)
class GpuDevice:
    """One line of nvidia-smi; unknown fields are ""."""

    name: str
    driver: str
    capability: str


def engine_devices(info: Mapping[str, Any], search: Callable[[list[str]], Iterable[str]]) -> tuple[str, ...]:
    """The GPUs among an engine's CDI devices, such as `nvidia.com/gpu=0`, from its info.

    For engines that list no devices, `search` gives the names in the CDI files of these folders of its machine. Engines
    before 25, and later ones with CDI off, have no `CDISpecDirs`; those before 28.3 have no `DiscoveredDevices`.
    """
    folders = info.get("CDISpecDirs")
    if not folders:
        return ()
    if (discovered := info.get("DiscoveredDevices")) is not None:
        names: Iterable[str] = (str(device.get("ID", "")) for device in discovered)
    else:
        names = search([str(folder) for folder in folders])
    return tuple(name for name in names if name.startswith(f"{CDI_KIND}="))


def has_device_file() -> bool:
    """Whether a driver's device file exists on this machine."""
    return any(Path(file).exists() for file in DEVICE_FILES)


def cdi_devices(folders: Iterable[str]) -> tuple[str, ...]:
    """Names such as `nvidia.com/gpu=0` from the CDI files of `folders`; unreadable files are skipped."""
    names: list[str] = []
    for folder in folders:
        for file in sorted(Path(folder).glob("*.*")):
            with contextlib.suppress(OSError, ValueError):
                names += devices_of(file.name, file.read_text())
    return tuple(dict.fromkeys(names))


def devices_of(file: str, text: str) -> list[str]:
    """The device names in one CDI file. Raises ValueError if it is no CDI file."""
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
    from reprokit.recipe import yaml

    try:
        return yaml.read(text, "").data
    except UsageError as error:
        raise ValueError(error.message) from None


def gpus(command: str = "nvidia-smi") -> list[GpuDevice]:
    """This machine's GPUs; where nvidia-smi fails or hangs, one nameless GPU with the driver's version, or none."""
    if (answer := _smi(command, QUERY)) is not None:
        return gpus_of(answer)
    # Old versions of nvidia-smi do not know compute_cap.
    driver = driver_version(command)
    return [GpuDevice("", driver, "")] if driver else []


def gpus_of(answer: str) -> list[GpuDevice]:
    """From nvidia-smi's answer to `QUERY`, without a header."""
    lines = [[part.strip() for part in line.split(",")] for line in answer.splitlines()]
    return [GpuDevice(*parts) for parts in lines if len(parts) == 3]


def driver_version(command: str = "nvidia-smi", module: Path = _MODULE) -> str | None:
    """The NVIDIA driver's version; None if there is no driver or nvidia-smi does not answer in time."""
    try:
        return module.read_text(encoding="ascii").strip() or None
    except OSError:
        lines = (_smi(command, "driver_version") or "").split()
        return lines[0] if lines else None


def _smi(command: str, query: str) -> str | None:
    """What nvidia-smi prints; None if it is missing, fails or takes too long."""
    argv = [command, f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        answer = run(argv, _SMI_SECONDS, COMMAND_ANSWER, {**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError, Flood):
        return None
    return None if answer.code else answer.out
