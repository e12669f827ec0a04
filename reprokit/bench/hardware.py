"""The hardware that a container sees, its state before and after a benchmark, and reasons to doubt the samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.container.execute import Completed
from reprokit.host import gpu
from reprokit.host.command import SAY, lines_of
from reprokit.host.gpu import Gpu
from reprokit.results.record import MachineFacts, MachineState
from reprokit.untrusted.limits import PROBE_ANSWER

Execute = Callable[..., Completed]

_SMI_S = 30.0
_HARDWARE = f"""{SAY}
nproc 2>/dev/null | say threads
sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1 | say cpu
uname -m | say machine
cpu=/sys/devices/system/cpu/cpu0/cpufreq
cat $cpu/scaling_governor 2>/dev/null | say governor
cat $cpu/scaling_max_freq 2>/dev/null | say cpu_khz
sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo | say memory_kb
cat /sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id 2>/dev/null | sort -u | grep -c . | say sockets
cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list 2>/dev/null | sort -u | grep -c . | say cores
ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | grep -c . | say numa_nodes
for cache in /sys/devices/system/cpu/cpu0/cache/index[0-9]*; do
  [ -r "$cache/size" ] && cat "$cache/level" "$cache/type" "$cache/size" | tr '\\n' ' ' | say cache
done
for device in /dev/nvidia[0-9]*; do [ -e "$device" ] && echo "$device" | say device; done
{gpu.script(_SMI_S)}
exit 0
"""
# Two readings of /proc/stat half a second apart give the busy processors. The load average would still count an
# earlier build.
_STATE = f"""{SAY}
head -n 1 /proc/stat | say stat; sleep 0.5; head -n 1 /proc/stat | say stat
cpu=/sys/devices/system/cpu/cpu0
cat $cpu/cpufreq/scaling_cur_freq 2>/dev/null | say khz
for zone in /sys/class/thermal/thermal_zone*; do
  case $(cat "$zone/type" 2>/dev/null) in x86_pkg_temp | cpu*) cat "$zone/temp" 2>/dev/null | say heat ;; esac
done
cat $cpu/thermal_throttle/*_throttle_count 2>/dev/null | say throttle
grep -c ^processor /proc/cpuinfo | say processors
{gpu.script(_SMI_S)}
exit 0
"""
# Ask for the reasons each second while a command runs: after it, the card is idle and at full clocks again. The counts
# are on standard error, perhaps behind a line that the command did not end. They are omitted if it failed.
_WATCH = """
command -v nvidia-smi >/dev/null && file=$(mktemp) || exec "$@"
for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
  timeout 30 nvidia-smi --query-gpu="$reasons" --format=csv,noheader,nounits >/dev/null 2>&1 && break
done
nvidia-smi --query-gpu="index,$reasons" --format=csv,noheader,nounits -lms 1000 >"$file" 2>/dev/null &
"$@"
code=$?
kill $! 2>/dev/null
[ $code != 0 ] || sort "$file" | uniq -c | sed 's/^/reprokit-gpu: /' >&2
rm -f "$file"
exit $code
"""
_SAMPLES = re.compile("reprokit-gpu: +([0-9]{1,9}) ([0-9]{1,2}), (0x[0-9a-fA-F]{1,16})\n")
_NUMBER = re.compile("-?[0-9]{1,15}")
# Other programs may use this share of the processors, or half a processor, without a doubt.
_BUSY_SHARE, _BUSY_LEAST = 0.1, 0.5
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
        """The reason to doubt results of a GPU without a name; else empty."""
        why = "the GPU is unknown: no nvidia-smi in the container named it, so other GPUs' results look alike"
        return [why] if self.gpu == _UNKNOWN else []


def probe(execute: Execute) -> Hardware:
    """The hardware that commands in a container see."""
    return read(execute(["sh", "-c", _HARDWARE], logged=False).stdout)


def read(text: str) -> Hardware:
    """Parse the report of the probe's script; missing values stay unknown."""
    values = lines_of(text[:PROBE_ANSWER])

    def first(key: str) -> str:
        return values.get(key, [""])[0].strip()

    gpus = gpu.parse(values).gpus
    names = [card.name + part for card in gpus for part in [f" MIG {profile}" for profile in card.slices] or [""]]
    clocks: dict[str, int | str | list[int]] = {}
    fields: dict[str, Callable[[Gpu], int | None]] = {
        "gpu_max_sm": lambda card: card.max_clock,
        "gpu_max_memory": lambda card: card.max_memory_clock,
        "gpu_applications": lambda card: card.applications_clock,
    }
    for name, clock in fields.items():
        rates = [rate for card in gpus if (rate := clock(card))]
        if rates and len(rates) == len(gpus):
            clocks[name] = rates[0] if len(set(rates)) == 1 else rates
    if khz := _whole(first("cpu_khz")):
        clocks["cpu_max"] = khz // 1000
    if first("governor"):
        clocks["cpu_governor"] = first("governor")
    return Hardware(
        cpu=first("cpu") or first("machine"),
        threads=_whole(first("threads")) or 1,
        gpu=_counted(names or ([_UNKNOWN] if values.get("device") else [])),
        driver=gpus[0].driver if gpus else "",
        clocks=clocks,
        has_gpu=bool(gpus or values.get("device")),
        machine=MachineFacts(
            sockets=_whole(first("sockets")),
            cores=_whole(first("cores")),
            numa_nodes=_whole(first("numa_nodes")),
            memory=1024 * _whole(first("memory_kb")),
            caches=dict(filter(None, map(_cache, values.get("cache", [])))),
        ),
    )


def _whole(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0


def _cache(text: str) -> tuple[str, int] | None:
    """`1 Data 32K` as L1d and its bytes."""
    match = re.fullmatch(r"([0-9]) (Data|Instruction|Unified) ([0-9]{1,9})K", text.strip())
    if match is None:
        return None
    letter = {"Data": "d", "Instruction": "i", "Unified": ""}[match[2]]
    return f"L{match[1]}{letter}", 1024 * int(match[3])


def _counted(names: list[str]) -> str:
    """`["A", "A", "B"]` as `"2x A, B"`."""
    return ", ".join(f"{count}x {name}" if count > 1 else name for name, count in Counter(names).items())


def probe_state(execute: Execute) -> MachineState:
    """The machine's present state; takes half a second."""
    return state_of(execute(["sh", "-c", _STATE], logged=False).stdout)


def state_of(text: str) -> MachineState:
    """Parse the report of the state's script; missing values stay unknown."""
    values = lines_of(text[:PROBE_ANSWER])

    def numbers(key: str) -> list[int]:
        return [int(value) for value in values.get(key, []) if _NUMBER.fullmatch(value)]

    heat, clock, throttles = numbers("heat"), numbers("khz"), numbers("throttle")
    gpus = gpu.parse(values).gpus
    return MachineState(
        load=_busy(values.get("stat", []), (numbers("processors") or [0])[0]),
        cpu_clock=clock[0] // 1000 if clock else None,
        cpu_temperature=max(heat) / 1000 if heat else None,
        throttles=sum(throttles) if throttles else None,
        gpu_clock=tuple(card.clock for card in gpus),
        gpu_temperature=tuple(card.temperature for card in gpus),
        gpu_slowdown=tuple(", ".join(card.slowdowns) for card in gpus),
    )


def watched(argv: Sequence[str]) -> list[str]:
    """A command that samples the GPUs while `argv` runs."""
    return ["sh", "-c", _WATCH, "sh", *argv]


def samples_of(errors: str) -> tuple[str, Counter[tuple[int, str]]]:
    """The standard error of a watched command, and its samples by GPU and reason for a slow-down, "" for none."""
    samples = Counter[tuple[int, str]]()
    for count, index, bits in _SAMPLES.findall(errors):
        samples[int(index), ", ".join(gpu.slowdowns(bits))] += int(count)
    return _SAMPLES.sub("", errors), samples


def doubts(
    threads: int, before: MachineState, after: MachineState, samples: Mapping[tuple[int, str], int] = {}
) -> Iterator[str]:
    """Reasons to doubt what was measured between two states, in words; `samples` are those of `samples_of`."""
    most = max(_BUSY_LEAST, _BUSY_SHARE * threads)
    for when, state in (("before", before), ("after", after)):
        if state.load is not None and state.load > most:
            yield f"other programs kept {state.load:.1f} processors busy {when} the benchmark"
        for number, reason in enumerate(state.gpu_slowdown):
            if reason:
                yield f"GPU {number} was slowed down {when} the benchmark: {reason}"
    if before.throttles is not None and after.throttles is not None and after.throttles > before.throttles:
        yield "the CPU was slowed down by heat during the benchmark"
    for (number, reason), count in sorted(samples.items()):
        if reason:
            total = sum(n for (index, _), n in samples.items() if index == number)
            yield f"GPU {number} was slowed down in {count} of {total} samples: {reason}"


def _busy(lines: Sequence[str], processors: int) -> float | None:
    """Busy processors between two first lines of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal."""
    counts = [[int(cell) for cell in line.split()[1:9] if _NUMBER.fullmatch(cell)] for line in lines]
    if len(counts) != 2 or any(len(count) < 5 for count in counts) or not processors:
        return None
    passed = [later - earlier for earlier, later in zip(*counts, strict=False)]
    total = sum(passed)
    return round(processors * (1 - (passed[3] + passed[4]) / total), 2) if total > 0 else None
