"""Memory, swap and /dev/shm, for a recipe if one is named."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.checks import disk
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning
from reprokit.doctor.shell import Reported
from reprokit.formatting import binary_size
from reprokit.host.memory import memory_of

_SCRIPT = """
grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree):' "$ROOT/proc/meminfo" 2>/dev/null | say meminfo
cat "$ROOT/sys/fs/cgroup/memory.max" 2>/dev/null | say limit
grep '^oom_kill ' "$ROOT/proc/vmstat" 2>/dev/null | say killed
LC_ALL=C df -P -k "$ROOT/dev/shm" 2>/dev/null | tail -n +2 | say shm
"""
_PER_JOB = 2 << 30  # a compiler of CUDA or of C++ templates takes about this much


def total(host: Examined) -> int | None:
    """Bytes of memory, as `check` counts them; None if unknown."""
    return _total(host.ask(_SCRIPT))


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    memory = _total(found)
    counts = {name: _bytes(found, name) for name in ("MemAvailable", "SwapTotal")}
    free, swap = counts["MemAvailable"], counts["SwapTotal"]
    if memory is None:
        return
    shared = disk.counts(found.one("shm"))
    parts = [
        f"{binary_size(free)} available" if free is not None else "",
        f"{binary_size(swap)} of swap" if swap else "no swap",
        f"{binary_size(shared[0] * 1024)} of /dev/shm (containers get their own)" if shared else "",
    ]
    subject = f"host.memory={binary_size(memory)}"
    yield info("memory", subject, ", ".join(filter(None, parts)))
    if not swap and memory < 4 * _PER_JOB:
        reason = "little memory and no swap: the kernel kills compilers that run in parallel"
        remedy = "add swap (`sudo fallocate -l 8G /swapfile`, mkswap, swapon), or build with fewer jobs: MAX_JOBS=1"
        yield warning("memory.swap", subject, reason, remedy)
    if (killed := re.search(r"\d+$", found.one("killed"))) and int(killed[0]):
        reason = "processes that the kernel has killed for lack of memory since it started: `sudo dmesg | grep -i oom`"
        yield info("memory.oom", f"host.oom_kills={killed[0]}", reason)
    needs = host.target.variant.requires.memory if host.target else 0
    if free is not None and free < needs <= memory:
        reason = (
            f"{host.target.label if host.target else ''} needs {binary_size(needs)}, and other programs use the memory"
        )
        yield warning(
            "memory.available", f"host.memory_available={binary_size(free)}", reason, "end what uses it: `top -o %MEM`"
        )
    yield from _shm(host, memory)


def _shm(host: Examined, memory: int) -> Iterator[Finding]:
    asked = host.target.variant.shm if host.target else None
    if asked and asked > memory:
        reason = f"/dev/shm of {host.target.label if host.target else ''} is larger than the memory that it takes from"
        yield warning("memory.shm", f"shm={binary_size(asked)}", reason, "give a smaller one: `--shm-size`")


def _total(found: Reported) -> int | None:
    return memory_of(found.all("meminfo"), found.one("limit"))


def _bytes(found: Reported, name: str) -> int | None:
    for line in found.all("meminfo"):
        if match := re.fullmatch(rf"{name}: +(\d{{1,15}}) kB", line):
            return int(match[1]) * 1024
    return None
