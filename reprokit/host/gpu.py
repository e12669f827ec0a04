"""GPUs of a machine: what nvidia-smi reports, the driver's device files, and the files of CDI."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import Any, Literal

from reprokit.errors import UsageError
from reprokit.host.command import SAY, Flood, lines_of, run
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import COMMAND_ANSWER

CDI_KIND = "nvidia.com/gpu"
# Device files of the driver, and WSL's.
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
SMI_S = 5.0
POWER_LIMIT = "power limit"
# Bits of NVML's nvmlClocksEventReasons (nvml.h) that slow a GPU below what its load would allow.
_SLOWDOWNS = {0x4: POWER_LIMIT, 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
# Fields of a query, by the field of `Gpu`. MIG comes first because the script looks for it there.
_QUERY = {
    "mig.mode.current": "mig",
    "index": "index",
    "pci.bus_id": "address",
    "name": "name",
    "driver_version": "driver",
    "compute_cap": "capability",
    "clocks.sm": "clock",
    "clocks.max.sm": "max_clock",
    "clocks.max.memory": "max_memory_clock",
    "clocks.applications.graphics": "applications_clock",
    "temperature.gpu": "temperature",
    "clocks_event_reasons.active": "slowdowns",
    "clocks_throttle_reasons.active": "slowdowns",  # the name before driver 535
    "persistence_mode": "persistence",
    "ecc.mode.current": "ecc",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors",
}
SmiStatus = Literal["missing", "answers", "fails", "hangs"]


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi reports it. Unknown texts are "", unknown numbers None.

    `address` is its PCI address as sysfs writes it. Clocks are MHz: of the SMs now and at most, of the memory at most,
    and the one that is set for applications. `temperature` is in degrees Celsius. `slowdowns` are the reasons for which
    its clocks are below what its load would allow. `mig`, `persistence` and `ecc` are "Enabled" or "Disabled".
    `slices` are the profiles of its MIG devices, such as `3g.20gb`.
    """

    name: str = ""
    driver: str = ""
    capability: str = ""
    index: str = ""
    address: str = ""
    clock: int | None = None
    max_clock: int | None = None
    max_memory_clock: int | None = None
    applications_clock: int | None = None
    temperature: int | None = None
    slowdowns: tuple[str, ...] = ()
    mig: str = ""
    persistence: str = ""
    ecc: str = ""
    ecc_errors: int | None = None
    slices: tuple[str, ...] = ()


_TYPES = {field.name: field.type for field in fields(Gpu)}


@dataclass(frozen=True)
class SmiAnswer:
    """What `script` reported. `module` is the version of the loaded kernel module, `error` what nvidia-smi printed."""

    status: SmiStatus = "missing"
    gpus: tuple[Gpu, ...] = ()
    module: str = ""
    error: str = ""

    @property
    def known_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs. If nvidia-smi lists none but a driver is loaded, one nameless GPU."""
        return self.gpus or ((Gpu(driver=self.module),) if self.module else ())


def script(limit_s: float = SMI_S) -> str:
    """A script for a POSIX sh that reports with `say` what `parse` reads.

    If a card fell off the bus, nvidia-smi hangs for minutes, out of reach of signals, so the script waits `limit_s`
    seconds at most. A driver refuses a query with an unknown field and names it; the script repeats the query without
    it.
    """
    return rf"""
cat "${{ROOT-}}/sys/module/nvidia/version" 2>/dev/null | say module
smi_fields={",".join(_QUERY)} smi_tenths={limit_s * 10:.0f}
smi() {{
  LC_ALL=C nvidia-smi "$@" >"$smi_file" 2>&1 </dev/null &
  while kill -0 $! 2>/dev/null; do
    [ "$smi_tenths" -gt 0 ] || {{ kill -9 $!; return 124; }}
    smi_tenths=$((smi_tenths - 1))
    sleep 0.1
  done
  wait $!
}}
smi_report() {{
  until smi --query-gpu="$smi_fields" --format=csv,noheader,nounits; do
    [ $? != 124 ] || {{ echo hangs | say smi; return; }}
    unknown=$(sed -n 's/^Field "\([a-z_.]*\)" is not a valid field.*/\1/p' "$smi_file" | head -n 1)
    kept=
    for field in $(echo "$smi_fields" | tr , ' '); do [ "$field" = "$unknown" ] || kept=$kept,$field; done
    [ "${{kept#,}}" != "$smi_fields" ] || {{ echo fails | say smi; say smi_line <"$smi_file"; return; }}
    smi_fields=${{kept#,}}
  done
  echo answers | say smi
  echo "$smi_fields" | say smi_fields
  say smi_line <"$smi_file"
  ! grep -q '^Enabled' "$smi_file" || ! smi -L || say smi_listed <"$smi_file"
}}
if command -v nvidia-smi >/dev/null && smi_file=$(mktemp); then smi_report; rm -f "$smi_file"; fi
"""


def parse(lines: Mapping[str, list[str]]) -> SmiAnswer:
    """Parse what `script` reported, by name. The lines may come from a stranger's container or node."""

    def first(name: str) -> str:
        return next(iter(lines.get(name, [])), "")

    rows = lines.get("smi_line", [])
    slices: dict[str, list[str]] = {}
    index = ""
    for line in lines.get("smi_listed", []):
        if match := re.match(r"GPU (\d{1,4}):| *MIG (\S+)", line):
            index = match[1] or index
            slices.setdefault(index, []).extend([match[2]] if match[2] else [])
    gpus = [_gpu(dict(zip(first("smi_fields").split(","), row.split(", "), strict=False)), slices) for row in rows]
    valid = tuple(gpu for gpu in gpus if gpu)
    statuses: dict[str, SmiStatus] = {"answers": "answers" if valid else "fails", "fails": "fails", "hangs": "hangs"}
    return SmiAnswer(
        status=statuses.get(first("smi"), "missing"),
        gpus=valid,
        module=version(first("module")),
        error=" ".join(row for row, gpu in zip(rows, gpus, strict=True) if not gpu),
    )


def _gpu(cells: Mapping[str, str], slices: Mapping[str, list[str]]) -> Gpu | None:
    """The GPU of a row, None for another line: a broken driver prints a sentence."""
    index = cells.get("index", "").strip()
    if not (index.isascii() and index.isdecimal()) or "name" not in cells:
        return None
    values: dict[str, Any] = {}
    for field, name in _QUERY.items():
        text = cells.get(field, "").strip()
        if text and not text.startswith("["):  # [N/A], [Not Supported]
            values[name] = _value(name, text)
    return Gpu(**{**values, "slices": tuple(slices.get(index, ()))})


def _value(name: str, text: str) -> str | int | tuple[str, ...] | None:
    if name == "slowdowns":
        return slowdowns(text)
    if name == "address":
        return address(text)
    if _TYPES[name] == "str":
        return text
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


def slowdowns(bits: str) -> tuple[str, ...]:
    """The reasons for a slow-down in a bit mask such as 0x0000000000000004."""
    mask = int(bits, 16) if re.fullmatch("0x[0-9a-fA-F]{1,16}", bits) else 0
    return tuple(dict.fromkeys(name for bit, name in _SLOWDOWNS.items() if mask & bit))


def address(text: str) -> str:
    """A PCI address as sysfs writes it; nvidia-smi writes the domain with eight digits, and capitals."""
    match = re.fullmatch(r"(?:[0-9a-f]{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", text.lower())
    return match[1] if match else text


def version(text: str) -> str:
    """A driver version such as 535.54.03, "" for any other text."""
    return text if re.fullmatch(r"\d{2,4}(\.\d{1,4}){1,3}", text) else ""


def gpus(limit_s: float = SMI_S) -> list[Gpu]:
    """This machine's GPUs; one nameless GPU with the driver's version if nvidia-smi fails or hangs, or none."""
    try:
        output = run(["sh", "-c", SAY + script(limit_s)], limit_s + 1, COMMAND_ANSWER).out
    except (OSError, subprocess.SubprocessError, Flood):
        return []
    return list(parse(lines_of(output)).known_gpus)


def has_device_file() -> bool:
    """Whether a driver's device file exists on this machine."""
    return any(Path(file).exists() for file in DEVICE_FILES)


def cdi_devices(folders: Iterable[str]) -> tuple[str, ...]:
    """Names such as `nvidia.com/gpu=0` from the CDI files of `folders`; unreadable files are skipped."""
    names: list[str] = []
    for folder in folders:
        for file in sorted(Path(folder).glob("*.*")):
            with contextlib.suppress(OSError, ValueError):
                names += devices_of(file.name, file.read_text())
    return tuple(dict.fromkeys(names))


def devices_of(file: str, text: str) -> list[str]:
    """The device names in one CDI file. Raises ValueError if it is no CDI file."""
    try:
        spec = _parsed(PurePath(file).suffix, text)
        return [f"{spec['kind']}={device['name']}" for device in spec["devices"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} describes no devices: {error}") from None


def _parsed(suffix: str, text: str) -> Any:
    if suffix == ".json":
        return parsed(text)
    if suffix not in (".yaml", ".yml"):
        raise ValueError(suffix)
    from reprokit.recipe import yaml

    try:
        return yaml.read(text, "").data
    except UsageError as error:
        raise ValueError(error.message) from None
