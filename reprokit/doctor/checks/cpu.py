"""Processors: their number, clock and memory nodes, which decide what a benchmark measures."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import info, warning

_SCRIPT = """
nproc 2>/dev/null | say threads
sed -n 's/^model name[^:]*: *//p' "$ROOT/proc/cpuinfo" 2>/dev/null | head -n 1 | say model
for file in "$ROOT"/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
  [ -r "$file" ] && read -r governor <"$file" && echo "$governor"
done | sort -u | say governor
cat "$ROOT/sys/devices/system/node/online" 2>/dev/null | say nodes
for card in "$ROOT"/sys/bus/pci/drivers/nvidia/[0-9a-f]*:*; do
  [ -r "$card/numa_node" ] && read -r near <"$card/numa_node" && echo "${card##*/} $near" | say near
done
cut -d ' ' -f 1 "$ROOT/proc/loadavg" 2>/dev/null | say load
"""


def find(host: Examined) -> Iterator[Finding]:
    found = host.ask(_SCRIPT)
    threads = found.number("threads")
    subject = f"host.threads={threads if threads is not None else '?'}"
    yield info("cpu", subject, found.one("model"))
    slow = [governor for governor in found.all("governor") if governor != "performance"]
    if slow:
        reason = "the clock follows the load, so short benchmarks run slower and vary"
        remedy = "for benchmarks: `sudo cpupower frequency-set -g performance`"
        yield warning("cpu.governor", f"host.governor={', '.join(slow)}", reason, remedy)
    if (nodes := found.one("nodes")) not in ("", "0"):
        near = ", ".join(f"GPU {line.replace(' ', ' at node ')}" for line in found.all("near"))
        reason = f"memory of another node is slower; {near or 'pin benchmarks to one: numactl --cpunodebind'}"
        yield info("cpu.numa", f"host.numa_nodes={nodes}", reason)
    try:
        load = float(found.one("load"))
    except ValueError:
        return
    if threads and load > threads:
        reason = f"{load:.0f} processes want to run at once: builds are slow, and benchmarks are not believable"
        yield warning("cpu.load", f"host.load={load:.1f}", reason, "end them, or wait: `top`")
