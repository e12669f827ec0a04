"""GPUs: the PCI bus, the driver, the Container Toolkit, health, and GPUs in containers."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, KnownGpu
from reprokit.compat.version import key
from reprokit.container.gpu import ALL, TOOLKIT, ladder, no_gpu_error, refused
from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, unknown, warning
from reprokit.doctor.gpus import SMI_S, GpuState
from reprokit.doctor.shell import clipped
from reprokit.engine import LABEL, OWN_IMAGES, Engine
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.formatting import counted
from reprokit.helper.program import helper_image
from reprokit.host.gpu import POWER_LIMIT, Gpu, version

ROLE = f"{LABEL}.doctor"
_RUN_S = 4.0
_STALE_S = 60
_NO_PROGRAM = "executable file not found"  # the toolkit brings nvidia-smi into the container
_NOBODY = "65534:65534"
_RESET = (
    "`sudo dmesg | grep -i xid` says why; reboot, or with one card lost `sudo nvidia-smi --gpu-reset -i N`; if it "
    "comes back, look at the power and cooling of the card"
)
_PERSISTENCE = "sudo nvidia-smi -pm 1"
_TOOLKIT = """
nvidia-ctk --version 2>/dev/null | say ctk
for name in nvidia-ctk nvidia-container-runtime nvidia-container-runtime-hook nvidia-container-cli; do
  command -v "$name" | say program
done
cat "$ROOT"/etc/cdi/*nvidia* "$ROOT"/var/run/cdi/*nvidia* 2>/dev/null \\
  | grep -oE 'lib(cuda|nvidia-ml)\\.so\\.[0-9]+\\.[0-9.]*[0-9]' | sort -u | head -n 20 | say cdi_library
"""
_GENERATE = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


def lost(host: Examined) -> Iterator[Finding]:
    """Compare the GPUs of the PCI bus with those of the driver and nvidia-smi."""
    state = host.gpus()
    if not state.present:
        yield info("gpu", "gpus=0", "no NVIDIA GPU on the PCI bus")
        return
    yield from _not_working(state)
    for gpu in state.gpus:
        where = f"index {gpu.index}, at {clipped(gpu.address)}, driver {clipped(gpu.driver)}"
        yield info("gpu", _label(gpu), f"{where}{_oldest_cuda(gpu)}")
    labels = list(dict.fromkeys(map(_label, state.gpus)))
    if len(labels) > 1:
        reason = "GPUs of several kinds: code that is built for one may not run on another, and times differ"
        remedy = "choose with `--gpus device=N`; list all in requires.compute_capability; `doctor NAME` judges each"
        yield warning("gpu.unlike", " and ".join(labels), reason, remedy)


def _label(gpu: Gpu) -> str:
    """`gpu=RTX 3090 (sm_86)`, as `check` names it; the name of nvidia-smi for a GPU that is not in the facts."""
    model = _model(gpu)
    return model.label if model else f"gpu={clipped(gpu.name)}"


def _model(gpu: Gpu) -> KnownGpu | None:
    try:
        return parse_gpu(bundled(), gpu.name)
    except UsageError:
        return None


def _oldest_cuda(gpu: Gpu) -> str:
    model = _model(gpu)
    releases = [cuda for cuda, kit in bundled().cuda.toolkits.items() if model and model.sm in kit.sm]
    return f"; CUDA {min(releases, key=key)} or later" if releases else ""


def _not_working(state: GpuState) -> Iterator[Finding]:
    """Cards on the bus that do not work."""
    subject = f"gpus={len(state.gpus)} of {len(state.cards)}"
    dead = [card.address for card in state.cards if card.dead]
    log = f" (kernel: {state.xid[-1]})" if state.xid else ""
    if dead:
        reason = f"fell off the bus: the PCI configuration of {', '.join(dead)} reads as ones only{log}"
        yield error("gpu.lost", subject, reason, _RESET)
    ours = [card.address for card in state.cards if card.driver in ("nvidia", "") and not card.dead]
    if state.hangs:
        unlisted = [address for address in ours if state.driver_cards and address not in state.driver_cards]
        lacking = f", of which the driver does not have {', '.join(unlisted)}" if unlisted else ""
        what = "nvidia-smi does not answer" if state.smi.status == "hangs" else "the driver's files do not answer"
        reason = (
            f"{what} within {SMI_S:g} s; the PCI bus has {_gpus(len(state.cards))}{lacking}: a card fell off the "
            f"bus, or the driver is stuck{log}"
        )
        yield error("gpu.hangs", subject, reason, f"end programs on the GPUs, then: {_RESET}")
        return
    seen = {gpu.address for gpu in state.gpus}
    missing = [address for address in ours if address not in seen]
    if state.smi.status == "answers" and missing and state.module:
        reason = f"the PCI bus has {_gpus(len(state.cards))}, nvidia-smi does not see {', '.join(missing)}{log}"
        if dead or log:
            yield error("gpu.lost", subject, reason, _RESET)
        else:
            reason += ": lost, or this login has only some (a job of Slurm, a container)"
            yield warning("gpu.lost", subject, reason, f"if this login should have all: {_RESET}")
    elif state.smi.status == "fails" and state.module and "version mismatch" not in state.smi.error:
        output = clipped(state.smi.error) or "no output"
        reason = f"the PCI bus has {_gpus(len(state.cards))}, and nvidia-smi fails: {output}{log}"
        yield error("gpu.lost", subject, reason, _RESET)
    elif state.xid:
        reason = f"the kernel has logged errors of a GPU: {state.xid[-1]}"
        yield warning("gpu.xid", subject, reason, "look the number up in NVIDIA's list of Xid errors; watch for more")


def _gpus(count: int) -> str:
    return counted(count, "NVIDIA GPU")


def driver(host: Examined) -> Iterator[Finding]:
    """The NVIDIA driver: loaded, with libraries of the same version, with device files."""
    state = host.gpus()
    if not state.present:
        return
    subject = f"driver={state.driver or 'none'}"
    foreign = sorted({card.driver for card in state.cards} - {"nvidia", ""})
    if foreign:
        cards = ", ".join(card.address for card in state.cards if card.driver in foreign)
        reason = f"{cards} belongs to {' and '.join(foreign)}, so NVIDIA's driver cannot use it"
        remedy = "blacklist nouveau (/etc/modprobe.d), install NVIDIA's driver and reboot; vfio-pci gives cards to VMs"
        yield (warning if state.module else error)("gpu_driver.foreign", subject, reason, remedy)
    if state.cards and not state.driver and not state.hangs:
        reason = "the PCI bus has an NVIDIA GPU, and no NVIDIA driver is loaded"
        remedy = "install the distribution's NVIDIA driver, or `sudo modprobe nvidia`; with Secure Boot sign the module"
        yield error("gpu_driver.missing", subject, reason, remedy)
        return
    yield info("gpu_driver", subject, f"libraries {', '.join(state.libraries) or 'not found in the usual folders'}")
    other = [library for library in state.libraries if state.module and library != state.module]
    if "version mismatch" in state.smi.error or (other and state.module not in state.libraries):
        reason = (
            f"the loaded kernel module is {state.module or '?'}, the libraries are {', '.join(other) or 'others'}: "
            "NVML and CUDA refuse to work (driver/library version mismatch)"
        )
        remedy = "the driver was updated while it was loaded: reboot, or end all GPU programs and reload the modules"
        yield error("gpu_driver.mismatch", subject, reason, remedy)
    if state.module and state.smi.status == "missing":
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


def health(host: Examined) -> Iterator[Finding]:
    """ECC, throttling, persistence and MIG of each GPU, as nvidia-smi reports them."""
    state = host.gpus()
    for gpu in state.gpus:
        yield from _condition(gpu)
    if off := ", ".join(gpu.index for gpu in state.gpus if gpu.persistence == "Disabled"):
        reason = f"off for GPU {off}: the driver is loaded anew for each program, which takes seconds"
        remedy = f"switch it on: `{_PERSISTENCE}`"
        yield warning("gpu_health.persistence", "gpu.persistence=off", reason, remedy, _PERSISTENCE)


def _condition(gpu: Gpu) -> Iterator[Finding]:
    subject = f"gpu={gpu.index} {clipped(gpu.name)}"
    heat = f"{gpu.temperature} C" if gpu.temperature is not None else ""
    facts = {"persistence": gpu.persistence, "ECC": gpu.ecc, "MIG": gpu.mig, "temperature": heat}
    yield info("gpu_health", subject, clipped(", ".join(f"{name} {value}" for name, value in facts.items() if value)))
    if gpu.ecc_errors:
        reason = f"{gpu.ecc_errors} memory errors that ECC could not correct: results may be wrong, programs are killed"
        remedy = f"reset it: `sudo nvidia-smi --gpu-reset -i {gpu.index}`; replace it"
        yield error("gpu_health.ecc", subject, reason, remedy)
    if gpu.mig == "Enabled":
        reason = "MIG is on: programs see slices of this GPU, and none without a slice (`nvidia-smi mig -lgi`)"
        remedy = f"for the complete GPU: `sudo nvidia-smi -i {gpu.index} -mig 0`"
        yield warning("gpu_health.mig", subject, reason, remedy)
    if set(gpu.slowdowns) - {POWER_LIMIT}:  # the power limit is usual under load
        reason = f"its clocks are throttled: {', '.join(gpu.slowdowns)}; benchmarks are slower than they should be"
        remedy = "look at its cooling and power: `nvidia-smi -q -d PERFORMANCE`"
        yield warning("gpu_health.throttled", subject, reason, remedy)


def toolkit(host: Examined) -> Iterator[Finding]:
    """The NVIDIA Container Toolkit and CDI: installed, known to the engine, and of the driver's version."""
    state = host.gpus()
    if not state.driver:
        return
    answer = host.ask(_TOOLKIT)
    release = re.search(r"version (\d+(\.\d+)+)", answer.first("ctk"))
    subject = f"nvidia-container-toolkit={release[1] if release else 'none'}"
    if programs := ", ".join(answer.all("program")):
        yield info("gpu_toolkit", subject, f"in {programs}")
    named = {version(line.partition(".so.")[2]) for line in answer.all("cdi_library")} - {""}
    if named and state.driver not in named:
        drivers = ", ".join(sorted(named))
        reason = f"the CDI files are for driver {drivers}, this is {state.driver}: containers do not start"
        remedy = f"write them anew: `{_GENERATE}`"
        yield error("gpu_toolkit.stale", f"driver={state.driver}", reason, remedy, _GENERATE)
    engine_info = host.info()
    cdi = host.engine().cdi_devices(engine_info)
    if not programs and cdi:
        yield info("gpu_toolkit", subject, "not needed: CDI files from elsewhere describe the GPUs")
    elif not programs:
        yield error("gpu_toolkit.missing", subject, "without it containers get no GPU", TOOLKIT)
    names = [clipped(name) for name in engine_info.runtimes if "nvidia" in name]
    ways = [*(["CDI"] if cdi else []), *(f"runtime {name}" for name in names)]
    yield info("gpu_toolkit.engine", f"engine.gpu={', '.join(ways) or 'hook only'}", ", ".join(cdi))
    if engine_info.cdi_folders and not cdi and release:
        reason = "the engine has CDI on, and no file describes this machine's GPUs"
        yield warning("gpu_toolkit.cdi", "engine.cdi=empty", reason, f"write one: `{_GENERATE}`", _GENERATE)


def container(host: Examined) -> Iterator[Finding]:
    """Whether a container gets the GPUs: try one without network, mounts and capabilities."""
    state = host.gpus()
    if state.present and state.hangs:
        reason = "not asked of a container: the driver does not answer, and the engine would hang as well"
        yield unknown("gpu_container", "container.gpu", reason, "repair the driver first, see `gpu.hangs`")
        return
    if not state.driver:
        return
    engine = host.engine()
    _remove_stale(engine)
    refusal = ""
    for rung in ladder(ALL, engine.cdi_devices(host.info())):
        try:
            yield from _judged(rung.name, _gpus_in_container(engine, list(rung.requests)), len(state.gpus))
            return
        except EngineError as failure:
            if _NO_PROGRAM in failure.message:
                yield from _judged(rung.name, [failure.message], len(state.gpus))
                return
            if not refused(failure.message):
                raise
            refusal = failure.message
        except NoAnswer:
            reason = f"nvidia-smi in a container does not end within {_RUN_S:g} s"
            yield error("gpu_container.hangs", "container.gpu", reason, "see whether `nvidia-smi` works on the host")
            return
    none = no_gpu_error(ALL, refusal)
    yield error("gpu_container.refused", "container.gpu", clipped(f"{none.message} ({none.where})"), none.hint)


def _judged(way: str, listed: list[str] | None, expected: int) -> Iterator[Finding]:
    subject = f"container.gpu={way}"
    if listed is None:
        reason = "the engine accepts the request; no base image is there yet to run nvidia-smi in"
        yield info("gpu_container", subject, reason)
        return
    gpus = [line for line in listed if line.startswith("GPU ")]
    if len(gpus) < max(1, expected):
        output = clipped(" ".join(line for line in listed if line not in gpus)) or "nothing else"
        reason = f"nvidia-smi in a container lists {len(gpus)} GPUs, the host {expected}; it prints: {output}"
        remedy = "restart the engine after a driver update; see `gpu_toolkit`; on cgroup v2 update the toolkit"
        yield error("gpu_container.empty", subject, reason, remedy)
    else:
        yield info("gpu_container", subject, f"nvidia-smi in a container lists {len(gpus)} GPUs")


def _gpus_in_container(engine: Engine, requests: list[dict[str, Any]]) -> list[str] | None:
    """The lines of `nvidia-smi -L` in a container, None if only its start could be tried.

    Raises EngineError, NoAnswer.
    """
    base = _base(engine)
    body = {
        "Image": base or helper_image(engine),
        "Entrypoint": ["nvidia-smi", "-L"] if base else ["/helper"],
        "Cmd": [],
        "User": _NOBODY,
        "Env": ["NVIDIA_DRIVER_CAPABILITIES=utility"],
        "Labels": {ROLE: "gpu"},
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": 32,
            "LogConfig": {"Type": "none"},
            "DeviceRequests": requests,
        },
    }
    container = engine.create_container(f"reprokit-doctor-{secrets.token_hex(6)}", body)
    try:
        with closing(engine.attach(container)) as stream:
            engine.start(container)
            output = Bounded(lambda: b"".join(data for _, data in stream.frames()), _RUN_S).result()
    finally:
        with suppress(ReprokitError):
            engine.remove(container, force=True)
    return output.decode(errors="replace").splitlines() if base else None


def _base(engine: Engine) -> str:
    """A base image that reprokit made, "" if there is none: checks run no stranger's image."""
    names = [name for image in engine.images([]) for name in image.names]
    return next((name for name in sorted(names) if name.startswith(f"{OWN_IMAGES}/base:")), "")


def _remove_stale(engine: Engine) -> None:
    """Remove containers of interrupted checks."""
    for container in engine.containers([ROLE]):
        if time.time() - container.created > _STALE_S:
            with suppress(ReprokitError):
                engine.remove(container.id, force=True)
