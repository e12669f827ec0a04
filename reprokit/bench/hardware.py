"""The hardware that a container sees, probed inside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reprokit.container.execute import Completed
from reprokit.results.record import MachineFacts
from reprokit.untrusted.limits import PROBE_ANSWER

Execute = Callable[..., Completed]

# nvidia-smi hangs for minutes when a card fell off the bus.
_SCRIPT = """
echo "threads=$(nproc 2>/dev/null || echo 1)"
echo "cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
echo "machine=$(uname -m)"
cpu=/sys/devices/system/cpu/cpu0/cpufreq
[ -r $cpu/scaling_governor ] && echo "governor=$(cat $cpu/scaling_governor)"
[ -r $cpu/scaling_max_freq ] && echo "cpu_khz=$(cat $cpu/scaling_max_freq)"
echo "memory_kb=$(sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo)"
echo "sockets=$(cat /sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id 2>/dev/null | sort -u | grep -c .)"
echo "cores=$(cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list 2>/dev/null | sort -u | grep -c .)"
echo "numa_nodes=$(ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | grep -c .)"
for cache in /sys/devices/system/cpu/cpu0/cache/index[0-9]*; do
  [ -r "$cache/size" ] && echo "cache=$(cat "$cache/level" "$cache/type" "$cache/size" | tr '\\n' ' ')"
done
for device in /dev/nvidia[0-9]*; do [ -e "$device" ] && echo "device=$device"; done
if command -v nvidia-smi >/dev/null; then
  # A driver that does not know one field of a query refuses the query.
  for clocks in ,clocks.max.sm,clocks.max.memory,clocks.applications.graphics ''; do
    rows=$(timeout 30 nvidia-smi --query-gpu="name,driver_version$clocks" --format=csv,noheader,nounits) || continue
    echo "$rows" | sed 's/^/gpu=/'
    break
  done
  timeout 30 nvidia-smi -L | sed -n 's/^GPU .*/slice=GPU/p; s/^ *MIG \\([^ ]*\\).*/slice=MIG \\1/p'
fi
exit 0
"""
_UNKNOWN = "unknown GPU"


@dataclass(frozen=True)
class Hardware:
    """`threads` is the number of usable processors; `gpu` names all visible GPUs, `driver` is their driver.

    Slices of a GPU are named as torch names them: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`. `clocks` in MHz: the maxima and
    those set for applications.
    """

    cpu: str
    threads: int
    gpu: str = ""
    driver: str = ""
    clocks: Mapping[str, int | str | list[int]] = field(default_factory=dict)
    has_gpu: bool = False
    machine: MachineFacts = field(default_factory=MachineFacts)

    @property
    def doubts(self) -> list[str]:
        """The reason to doubt what was measured on a GPU that has no name here; else empty."""
        why = "the GPU is unknown: no nvidia-smi in the container named it, so other GPUs' results look alike"
        return [why] if self.gpu == _UNKNOWN else []


def probe(execute: Execute) -> Hardware:
    """The hardware that commands in a container see."""
    return read(execute(["sh", "-c", _SCRIPT], logged=False).stdout)


def read(text: str) -> Hardware:
    """Hardware from the probe's `key=value` lines; missing values stay unknown."""
    values: dict[str, list[str]] = {}
    for line in text[:PROBE_ANSWER].splitlines():
        key, separator, value = line.partition("=")
        if separator and value.strip():
            values.setdefault(key, []).append(value.strip())

    def one(key: str) -> str:
        return values.get(key, [""])[0]

    # A broken driver prints a sentence instead of a row.
    rows = [[cell.strip() for cell in row.split(",")] for row in values.get("gpu", [])]
    gpus = [(*row, "", "", "")[:5] for row in rows if len(row) in (2, 5)]
    slices: list[list[str]] = []
    for each in values.get("slice", []):
        if each == "GPU":
            slices.append([])
        elif slices:
            slices[-1].append(f" {each}")
    slices = slices if len(slices) == len(gpus) else [[]] * len(gpus)
    names = [cells[0] + part for cells, parts in zip(gpus, slices, strict=True) for part in parts or [""]]
    clocks: dict[str, int | str | list[int]] = {}
    for name, column in (("gpu_max_sm", 2), ("gpu_max_memory", 3), ("gpu_applications", 4)):
        known = [_whole(cells[column]) for cells in gpus if _whole(cells[column])]
        if known and len(known) == len(gpus):
            clocks[name] = known[0] if len(set(known)) == 1 else known
    if khz := _whole(one("cpu_khz")):
        clocks["cpu_max"] = khz // 1000
    if one("governor"):
        clocks["cpu_governor"] = one("governor")
    return Hardware(
        cpu=one("cpu") or one("machine"),
        threads=_whole(one("threads")) or 1,
        gpu=_counted(names or ([_UNKNOWN] if values.get("device") else [])),
        driver=gpus[0][1] if gpus else "",
        clocks=clocks,
        has_gpu=bool(gpus or values.get("device")),
        machine=MachineFacts(
            sockets=_whole(one("sockets")),
            cores=_whole(one("cores")),
            numa_nodes=_whole(one("numa_nodes")),
            memory=1024 * _whole(one("memory_kb")),
            caches=dict(filter(None, map(_cache, values.get("cache", [])))),
        ),
    )


def _whole(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0


def _cache(text: str) -> tuple[str, int] | None:
    """`1 Data 32K` as L1d and its bytes."""
    match = re.fullmatch(r"([0-9]) (Data|Instruction|Unified) ([0-9]{1,9})K", text)
    if match is None:
        return None
    letter = {"Data": "d", "Instruction": "i", "Unified": ""}[match[2]]
    return f"L{match[1]}{letter}", 1024 * int(match[3])


def _counted(names: list[str]) -> str:
    """`["A", "A", "B"]` as `"2x A, B"`."""
    return ", ".join(f"{count}x {name}" if count > 1 else name for name, count in Counter(names).items())
