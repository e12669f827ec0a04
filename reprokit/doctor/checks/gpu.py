"""The GPUs that the PCI bus has against those that the driver and nvidia-smi have."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, KnownGpu
from reprokit.compat.version import key
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.gpus import SMI_S, GpuState, SmiRow
from reprokit.errors import UsageError
from reprokit.formatting import counted

_RESET = (
    "`sudo dmesg | grep -i xid` says why; reboot, or with one card lost `sudo nvidia-smi --gpu-reset -i N`; if it "
    "comes back, look at the power and cooling of the card"
)


def find(host: Examined) -> Iterator[Finding]:
    yield from judge(host.gpus())


def judge(state: GpuState) -> Iterator[Finding]:
    if not state.present:
        yield info("gpu", "gpus=0", "no NVIDIA GPU on the PCI bus")
        return
    yield from _lost(state)
    for row in state.rows:
        yield info("gpu", label(row), f"index {row.index}, at {row.address}, driver {row.gpu.driver}{_oldest(row)}")
    kinds = list(dict.fromkeys(label(row) for row in state.rows))
    if len(kinds) > 1:
        reason = "GPUs of several kinds: code that is built for one may not run on another, and times differ"
        remedy = "choose with `--gpus device=N`; list all in requires.compute_capability; `doctor NAME` judges each"
        yield warning("gpu.unlike", " and ".join(kinds), reason, remedy)


def label(row: SmiRow) -> str:
    """`gpu=RTX 3090 (sm_86)`, as `check` names it; the name of nvidia-smi for a GPU that is not in the facts."""
    return known.label if (known := _known(row)) else f"gpu={row.gpu.name}"


def _known(row: SmiRow) -> KnownGpu | None:
    try:
        return parse_gpu(bundled(), row.gpu.name)
    except UsageError:
        return None


def _oldest(row: SmiRow) -> str:
    known = _known(row)
    since = [cuda for cuda, kit in bundled().cuda.toolkits.items() if known and known.sm in kit.sm]
    return f"; CUDA {min(since, key=key)} or later" if since else ""


def _lost(state: GpuState) -> Iterator[Finding]:
    """Cards that are on the bus and do not work."""
    subject = f"gpus={len(state.rows)} of {len(state.cards)}"
    dead = [card.address for card in state.cards if card.dead]
    log = f" (kernel: {state.xid[-1]})" if state.xid else ""
    if dead:
        reason = f"fell off the bus: the PCI configuration of {', '.join(dead)} reads as ones only{log}"
        yield error("gpu.lost", subject, reason, _RESET)
    ours = [card.address for card in state.cards if card.driver in ("nvidia", "") and not card.dead]
    if state.smi == "hangs" or state.driver_hangs:
        unknown = [address for address in ours if state.known and address not in state.known]
        lacking = f", of which the driver does not have {', '.join(unknown)}" if unknown else ""
        what = "nvidia-smi does not answer" if state.smi == "hangs" else "the driver's files do not answer"
        reason = (
            f"{what} within {SMI_S:g} s; the PCI bus has {_gpus(len(state.cards))}{lacking}: a card fell off the "
            f"bus, or the driver is stuck{log}"
        )
        yield error("gpu.hangs", subject, reason, f"end programs on the GPUs, then: {_RESET}")
        return
    seen = {row.address for row in state.rows}
    missing = [address for address in ours if address not in seen]
    if state.smi == "answers" and missing and state.module:
        reason = f"the PCI bus has {_gpus(len(state.cards))}, nvidia-smi does not see {', '.join(missing)}{log}"
        if dead or log:
            yield error("gpu.lost", subject, reason, _RESET)
        else:
            reason += ": lost, or this login has only some (a job of Slurm, a container)"
            yield warning("gpu.lost", subject, reason, f"if this login should have all: {_RESET}")
    elif state.smi == "fails" and state.module and "version mismatch" not in state.error:
        reason = f"the PCI bus has {_gpus(len(state.cards))}, and nvidia-smi fails: {state.error or 'no output'}{log}"
        yield error("gpu.lost", subject, reason, _RESET)
    elif state.xid:
        reason = f"the kernel has logged errors of a GPU: {state.xid[-1]}"
        yield warning("gpu.xid", subject, reason, "look the number up in NVIDIA's list of Xid errors; watch for more")


def _gpus(count: int) -> str:
    return counted(count, "NVIDIA GPU")
