"""ECC, throttling, persistence and MIG, which nvidia-smi reports of each GPU."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Finding
from reprokit.doctor.examined import Examined
from reprokit.doctor.findings import error, info, warning
from reprokit.doctor.gpus import GpuState, SmiRow
from reprokit.doctor.shell import Reported, number

_PLAIN = "index,persistence_mode,temperature.gpu"
_MORE = f"{_PLAIN},ecc.mode.current,ecc.errors.uncorrected.volatile.total,mig.mode.current"
# A driver that does not know one field of a query refuses the query; the name of the reasons changed with 535.
_SCRIPT = f"""
export LC_ALL=C
for fields in {_MORE},clocks_throttle_reasons.active {_MORE},clocks_event_reasons.active {_MORE} {_PLAIN}; do
  rows=$(nvidia-smi --query-gpu="$fields" --format=csv,noheader,nounits 2>/dev/null) || continue
  printf '%s\\n' "$rows" | say row
  break
done
"""
# Bits of NVML's nvmlClocksThrottleReasons (nvml.h).
_THROTTLES = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
_HARD = 0x8 | 0x20 | 0x40 | 0x80
_PERSISTENCE = "sudo nvidia-smi -pm 1"


def find(host: Examined) -> Iterator[Finding]:
    state = host.gpus()
    if state.smi == "answers":
        yield from judge(state, host.ask(_SCRIPT))


def judge(state: GpuState, found: Reported) -> Iterator[Finding]:
    rows = {row.index: row for row in state.rows}
    off = []
    for line in found.all("row"):
        index, *values = [part.strip() for part in line.split(",")]
        if index in rows and len(values) >= 2:
            yield from _about(rows[index], [*values, "", "", "", ""][:6])
            off += [index] if values[0] == "Disabled" else []
    if off:
        reason = f"off for GPU {', '.join(off)}: the driver is loaded anew for each program, which takes seconds"
        remedy = f"switch it on: `{_PERSISTENCE}`"
        yield warning("gpu_health.persistence", "gpu.persistence=off", reason, remedy, _PERSISTENCE)


def _about(row: SmiRow, values: list[str]) -> Iterator[Finding]:
    persistence, heat, ecc, errors, mig, throttle = values
    subject = f"gpu={row.index} {row.gpu.name}"
    shown = {"persistence": persistence, "ECC": ecc, "MIG": mig, "temperature": f"{heat} C" if number(heat) else ""}
    known = [f"{name} {value}" for name, value in shown.items() if value and not value.startswith("[")]
    yield info("gpu_health", subject, ", ".join(known))
    if (count := number(errors)) is not None and count:
        reason = f"{count} memory errors that ECC could not correct: results may be wrong, programs are killed"
        yield error(
            "gpu_health.ecc", subject, reason, f"reset it: `sudo nvidia-smi --gpu-reset -i {row.index}`; replace it"
        )
    if mig == "Enabled":
        reason = "MIG is on: programs see slices of this GPU, and none without a slice (`nvidia-smi mig -lgi`)"
        remedy = f"for the complete GPU: `sudo nvidia-smi -i {row.index} -mig 0`"
        yield warning("gpu_health.mig", subject, reason, remedy)
    bits = _bits(throttle)
    if bits & _HARD:
        why = ", ".join(name for bit, name in _THROTTLES.items() if bits & bit)
        reason = f"its clocks are throttled: {why}; benchmarks are slower than they should be"
        yield warning(
            "gpu_health.throttled", subject, reason, "look at its cooling and power: `nvidia-smi -q -d PERFORMANCE`"
        )


def _bits(text: str) -> int:
    try:
        return int(text, 16) if text.startswith("0x") and len(text) <= 18 else 0
    except ValueError:
        return 0
