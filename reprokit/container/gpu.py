"""GPU requests: `--gpus`, and the ways to ask an engine for GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from reprokit.errors import EngineError, UsageError
from reprokit.host.gpu import CDI_KIND

_HINT = "write --gpus all, --gpus none, --gpus 2 or --gpus device=0,1"


class GpuRefused(EngineError):
    """The host or its engine cannot provide the requested GPUs."""


@dataclass(frozen=True)
class GpuRequest:
    """`count` GPUs (-1: all), or the named `devices` (indexes or UUIDs)."""

    count: int = 0
    devices: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        return self.count == 0 and not self.devices

    def __str__(self) -> str:
        if self.devices:
            return "device=" + ",".join(self.devices)
        return {0: "none", -1: "all"}.get(self.count, str(self.count))


ALL = GpuRequest(count=-1)
NONE = GpuRequest()


def parse_gpus(text: str) -> GpuRequest:
    """`all`, `none`, a count, `device=0,1` or `device=GPU-uuid`. `0` asks for none. Raises UsageError."""
    if text == "all":
        return ALL
    if text == "none":
        return NONE
    if re.fullmatch(r"\d{1,3}", text):
        return GpuRequest(count=int(text))
    # docker requires the quotes of --gpus '"device=0,1"', so accept them.
    match = re.fullmatch(r'"?device=([A-Za-z0-9:-]+(?:,[A-Za-z0-9:-]+)*)"?', text)
    if match is None:
        raise UsageError(f"--gpus {text!r} is not a choice of GPUs", hint=_HINT)
    devices = tuple(match[1].split(","))
    if len(set(devices)) != len(devices):
        raise UsageError(f"--gpus {text!r} names a device twice", hint=_HINT)
    return GpuRequest(devices=devices)


@dataclass(frozen=True)
class Rung:
    """One way to request GPUs: `requests` are the Engine API's DeviceRequests."""

    name: str
    requests: tuple[dict[str, Any], ...]


def ladder(request: GpuRequest, cdi_devices: tuple[str, ...]) -> list[Rung]:
    """The ways to request GPUs, best first: CDI if the engine has it, then the NVIDIA runtime's hook.

    The hook is tried even if the engine lists no runtime: Engine 20.10 accepts the `gpu` capability if its PATH had
    `nvidia-container-runtime-hook` at its start, and does not report it. Raises UsageError for a device that CDI lacks.
    """
    if request.none:
        return [Rung("none", ())]
    hook = {
        "Driver": "",
        "Count": request.count,
        "DeviceIDs": list(request.devices),
        "Capabilities": [["gpu"]],
    }
    rungs = [Rung("NVIDIA runtime", ({**hook, "Options": {}},))]
    if cdi_devices:
        ids = _cdi_ids(request, cdi_devices)
        cdi = {"Driver": "cdi", "Count": 0, "DeviceIDs": ids, "Capabilities": [], "Options": {}}
        rungs.insert(0, Rung("CDI", (cdi,)))
    return rungs


def _cdi_ids(request: GpuRequest, available: tuple[str, ...]) -> list[str]:
    if request.devices:
        ids = [f"{CDI_KIND}={d}" for d in request.devices]
    elif request.count < 0:
        ids = [f"{CDI_KIND}=all"]
    else:
        indexes = sorted(int(d.partition("=")[2]) for d in available if re.fullmatch(rf"{CDI_KIND}=\d+", d))
        if len(indexes) < request.count:
            raise UsageError(
                f"--gpus {request.count}: this host has {len(indexes)}",
                hint=f"--gpus all, or {len(indexes)} at most",
            )
        ids = [f"{CDI_KIND}={i}" for i in indexes[: request.count]]
    missing = [i for i in ids if i not in available]
    if missing:
        raise UsageError(f"the engine knows no GPU {', '.join(missing)}", hint=f"it knows {', '.join(available)}")
    return ids


# Messages of the engine and the toolkit for a GPU that they cannot provide, from moby's daemon/devices.go, CDI's
# registry and nvidia-container-cli.
_REFUSALS = (
    "could not select device driver",
    "unresolvable CDI devices",
    "CDI device injection failed",
    "nvidia-container-cli",
    "nvidia-container-runtime",
)


def refused(message: str) -> bool:
    """Whether the engine's error is about the GPUs."""
    return any(text in message for text in _REFUSALS)


TOOLKIT = (
    "install the NVIDIA Container Toolkit, run `sudo nvidia-ctk runtime configure --runtime=docker` and restart the "
    "engine"
)


def no_gpu_error(request: GpuRequest, message: str) -> GpuRefused:
    """The error after the last rung failed; `message` is the engine's."""
    if "could not select device driver" in message:
        return GpuRefused(
            f"--gpus {request}: this Docker Engine cannot hand GPUs to containers",
            message.strip().replace("\n", " "),
            f"{TOOLKIT}; or continue without a GPU: --gpus none",
        )
    return GpuRefused(
        f"--gpus {request}: the NVIDIA Container Toolkit could not provide the GPUs",
        message.strip().replace("\n", " "),
        "see whether `nvidia-smi` works on the host; reboot after a driver update; or use --gpus none",
    )
