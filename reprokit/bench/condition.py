"""The state of the machine before and after a benchmark, probed in its container, and reasons to doubt the samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reprokit.bench.hardware import Execute
from reprokit.results.record import MachineState
from reprokit.untrusted.limits import PROBE_ANSWER

# Two readings of /proc/stat half a second apart give the processors that are busy now. The load average would still
# count the build that came before. nvidia-smi hangs for minutes when a card fell off the bus; drivers before 530 call
# the reasons for a slow-down by the older name.
_SCRIPT = """
head -n 1 /proc/stat | sed 's/^/stat=/'; sleep 0.5; head -n 1 /proc/stat | sed 's/^/stat=/'
cpu=/sys/devices/system/cpu/cpu0
[ -r $cpu/cpufreq/scaling_cur_freq ] && echo "khz=$(cat $cpu/cpufreq/scaling_cur_freq)"
for zone in /sys/class/thermal/thermal_zone*; do
  case $(cat "$zone/type" 2>/dev/null) in x86_pkg_temp | cpu*) echo "heat=$(cat "$zone/temp" 2>/dev/null)" ;; esac
done
cat $cpu/thermal_throttle/*_throttle_count 2>/dev/null | sed 's/^/throttle=/'
grep -c ^processor /proc/cpuinfo | sed 's/^/processors=/'
if command -v nvidia-smi >/dev/null; then
  for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
    query="clocks.sm,temperature.gpu,$reasons"
    rows=$(timeout 30 nvidia-smi --query-gpu="$query" --format=csv,noheader,nounits) || continue
    echo "$rows" | sed 's/^/gpu=/'
    break
  done
fi
exit 0
"""
# Ask for the reasons each second while a command runs: after it, the card is idle and at full clocks again. The counts
# are on standard error, perhaps behind a line that the command did not end. They are left out where it failed.
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
_BITS = re.compile("0x[0-9a-fA-F]{1,16}")
_NUMBER = re.compile("-?[0-9]{1,15}")
# Bits of NVML's nvmlClocksEventReasons that slow a GPU below what its load would allow.
_SLOWDOWNS = {0x4: "power limit", 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
# Others may use this share of the processors, or half of one, unremarked.
_BUSY_SHARE, _BUSY_LEAST = 0.1, 0.5


def probe_state(execute: Execute) -> MachineState:
    """The machine's state now; takes half a second."""
    return state_of(execute(["sh", "-c", _SCRIPT], logged=False).stdout)


def watched(argv: Sequence[str]) -> list[str]:
    """A command that samples the GPUs while `argv` runs."""
    return ["sh", "-c", _WATCH, "sh", *argv]


def samples_of(errors: str) -> tuple[str, Counter[tuple[int, str]]]:
    """The standard error of a watched command, and its samples by GPU and reason for a slow-down, "" for none."""
    found = Counter[tuple[int, str]]()
    for count, gpu, bits in _SAMPLES.findall(errors):
        found[int(gpu), _slowdown(int(bits, 16))] += int(count)
    return _SAMPLES.sub("", errors), found


def state_of(text: str) -> MachineState:
    """The state from the probe's `key=value` lines; missing values stay unknown."""
    values: dict[str, list[str]] = {}
    for line in text[:PROBE_ANSWER].splitlines():
        key, _, value = line.partition("=")
        values.setdefault(key, []).append(value.strip())

    def numbers(key: str) -> list[int]:
        return [int(value) for value in values.get(key, []) if _NUMBER.fullmatch(value)]

    heat, clock, throttles = numbers("heat"), numbers("khz"), numbers("throttle")
    gpus = [[cell.strip() for cell in row.split(",")] for row in values.get("gpu", [])]
    rows = [row for row in gpus if len(row) == 3]  # a broken driver prints a sentence
    return MachineState(
        load=_busy(values.get("stat", []), (numbers("processors") or [0])[0]),
        cpu_clock=clock[0] // 1000 if clock else None,
        cpu_temperature=max(heat) / 1000 if heat else None,
        throttles=sum(throttles) if throttles else None,
        gpu_clock=tuple(int(row[0]) if _NUMBER.fullmatch(row[0]) else None for row in rows),
        gpu_temperature=tuple(int(row[1]) if _NUMBER.fullmatch(row[1]) else None for row in rows),
        gpu_slowdown=tuple(_slowdown(int(row[2], 16)) if _BITS.fullmatch(row[2]) else "" for row in rows),
    )


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
            total = sum(each for (gpu, _), each in samples.items() if gpu == number)
            yield f"GPU {number} was slowed down in {count} of {total} samples: {reason}"


def _busy(lines: Sequence[str], processors: int) -> float | None:
    """Busy processors between two first lines of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal."""
    counts = [[int(cell) for cell in line.split()[1:9] if _NUMBER.fullmatch(cell)] for line in lines]
    if len(counts) != 2 or any(len(count) < 5 for count in counts) or not processors:
        return None
    passed = [later - earlier for earlier, later in zip(*counts, strict=False)]
    total = sum(passed)
    return round(processors * (1 - (passed[3] + passed[4]) / total), 2) if total > 0 else None


def _slowdown(bits: int) -> str:
    return ", ".join(dict.fromkeys(name for bit, name in _SLOWDOWNS.items() if bits & bit))
