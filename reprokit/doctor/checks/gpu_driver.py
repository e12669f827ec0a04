"""The NVIDIA driver: loaded, of the version of its libraries, with its device files."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.gpus import GpuState


def find(host: Examined) -> Iterator[Finding]:
    yield from judge(host.gpus())


def judge(state: GpuState) -> Iterator[Finding]:
    if not state.present:
        return
    subject = f"driver={state.module or next((row.gpu.driver for row in state.rows), 'none')}"
    foreign = sorted({card.driver for card in state.cards} - {"nvidia", ""})
    if foreign:
        cards = ", ".join(card.address for card in state.cards if card.driver in foreign)
        reason = f"{cards} belongs to {' and '.join(foreign)}, so NVIDIA's driver cannot use it"
        remedy = "blacklist nouveau (/etc/modprobe.d), install NVIDIA's driver and reboot; vfio-pci gives cards to VMs"
        yield (error if len(foreign) and not state.module else warning)("gpu_driver.foreign", subject, reason, remedy)
    if state.cards and not state.module and not state.rows:
        reason = "the PCI bus has an NVIDIA GPU, and no NVIDIA driver is loaded"
        remedy = "install the distribution's NVIDIA driver, or `sudo modprobe nvidia`; with Secure Boot sign the module"
        yield error("gpu_driver.missing", subject, reason, remedy)
        return
    yield info("gpu_driver", subject, f"libraries {', '.join(state.libraries) or 'not found in the usual folders'}")
    other = [library for library in state.libraries if state.module and library != state.module]
    if "version mismatch" in state.error or (other and state.module not in state.libraries):
        reason = (
            f"the loaded kernel module is {state.module or '?'}, the libraries are {', '.join(other) or 'others'}: "
            "NVML and CUDA refuse to work (driver/library version mismatch)"
        )
        remedy = "the driver was updated while it was loaded: reboot, or end all GPU programs and reload the modules"
        yield error("gpu_driver.mismatch", subject, reason, remedy)
    if state.module and state.smi == "missing":
        reason = "there is no nvidia-smi, though the driver is loaded: reprokit cannot learn the GPUs' names"
        yield warning("gpu_driver.smi", subject, reason, "install the driver's utilities (nvidia-utils, nvidia-smi)")
    if state.module and not {"/dev/nvidiactl", "/dev/nvidia0"} & set(state.devices):
        reason = "there are no device files of the driver (/dev/nvidia*): programs find no GPU"
        remedy = "make them: `sudo nvidia-modprobe -u -c=0`; in a container, start that with its GPUs (`--gpus all`)"
        yield error("gpu_driver.devices", subject, reason, remedy, "sudo nvidia-modprobe -u -c=0")
    elif state.module and "/dev/nvidia-uvm" not in state.devices and "/dev/nvidiactl" in state.devices:
        reason = "there is no /dev/nvidia-uvm: CUDA fails with error 999, though nvidia-smi works"
        remedy = "make it: `sudo nvidia-modprobe -u -c=0`"
        yield warning("gpu_driver.uvm", subject, reason, remedy, "sudo nvidia-modprobe -u -c=0")
