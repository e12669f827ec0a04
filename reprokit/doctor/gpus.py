"""The GPUs of a machine: what the PCI bus, the driver's files and nvidia-smi each report."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.shell import Reported, Shell, clipped
from reprokit.host.gpu import DEVICE_FILES, GpuDevice

SMI_S = 5.0
# A card that fell off the bus answers every read of its configuration with ones.
_PCI = """
for card in "$ROOT"/sys/bus/pci/devices/*; do
  vendor= class= device=
  { read -r vendor <"$card/vendor" && read -r class <"$card/class"; } 2>/dev/null
  [ "$vendor" = 0x10de ] || continue
  case $class in 0x03*) ;; *) continue ;; esac
  { read -r device <"$card/device"; } 2>/dev/null
  driver=$(readlink "$card/driver")
  head=$(od -An -v -tx1 -N4 "$card/config" 2>/dev/null | tr -d ' \\n')
  echo "${card##*/} ${device:-?} ${driver##*/} ${head:-?}" | say card
done
cat "$ROOT/sys/module/nvidia/version" 2>/dev/null | say module
"""
_DRIVER = f"""
for folder in "$ROOT"/proc/driver/nvidia/gpus/*; do
  [ -d "$folder" ] && echo "${{folder##*/}}" | say known
done
for file in {" ".join(DEVICE_FILES)} /dev/nvidia-uvm; do [ -e "$ROOT$file" ] && echo "$file" | say device; done
for folder in lib/x86_64-linux-gnu lib/aarch64-linux-gnu lib64 lib; do
  for file in "$ROOT/usr/$folder"/libnvidia-ml.so.*.*; do [ -e "$file" ] && echo "${{file##*.so.}}" | say library; done
done
dmesg 2>/dev/null | grep -E 'NVRM: (Xid|GPU [0-9a-fA-F:.]+: GPU has fallen)' | tail -n 3 | say xid
"""
_FIELDS = "index,pci.bus_id,name,driver_version,compute_cap"
# Old versions do not know compute_cap.
_SMI = f"""
export LC_ALL=C
command -v nvidia-smi | say path
ask() {{ answer=$(nvidia-smi --query-gpu="$1" --format=csv,noheader 2>&1); }}
if command -v nvidia-smi >/dev/null; then
  ask {_FIELDS} || ask {_FIELDS.removesuffix(",compute_cap")}
  echo $? | say code
  printf '%s\\n' "$answer" | say answer
fi
"""


@dataclass(frozen=True)
class PciCard:
    """An NVIDIA GPU on the PCI bus; `driver` is the kernel module that uses it, `dead` one that does not answer."""

    address: str
    device: str
    driver: str
    dead: bool


@dataclass(frozen=True)
class SmiRow:
    index: str
    address: str
    gpu: GpuDevice


@dataclass(frozen=True)
class GpuState:
    """`module` is the version of the loaded kernel module, `libraries` those of NVML, `known` the driver's cards.

    `error` is the error message of nvidia-smi. `hangs` has the parts of the driver that do not answer.
    """

    cards: tuple[PciCard, ...] = ()
    module: str = ""
    known: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    xid: tuple[str, ...] = ()
    smi: Literal["missing", "answers", "fails", "hangs"] = "missing"
    error: str = ""
    rows: tuple[SmiRow, ...] = ()
    driver_hangs: bool = False

    @property
    def gpus(self) -> list[GpuDevice]:
        """As `host.gpu.gpus` reports them."""
        return [row.gpu for row in self.rows] or ([GpuDevice("", self.module, "")] if self.module else [])

    @property
    def present(self) -> bool:
        """Whether the machine has an NVIDIA GPU, working or not."""
        return bool(self.cards or self.rows or self.devices)


def state(shell: Shell) -> GpuState:
    """Ask the bus, the driver's files and nvidia-smi, each in bounded time. Raises NoAnswer for the bus."""
    asked = Bounded(lambda: shell.ask(_SMI, SMI_S), SMI_S + 1)
    asked.start()
    bus = shell.ask(_PCI)
    try:
        files, hangs = shell.ask(_DRIVER, SMI_S / 2), False
    except NoAnswer:
        files, hangs = Reported({}), True
    smi: Literal["missing", "answers", "fails", "hangs"] = "missing"
    rows: tuple[SmiRow, ...] = ()
    error = ""
    try:
        answer = asked.result()
        if answer.one("path"):
            lines = answer.all("answer")
            rows = tuple(filter(None, map(_row, lines)))
            smi = "answers" if answer.one("code") == "0" and rows else "fails"
            error = clipped(" ".join(line for line in lines if not _row(line)))
    except NoAnswer:
        smi = "hangs"
    return GpuState(
        cards=tuple(filter(None, map(_card, bus.all("card")))),
        module=version(bus.one("module")),
        known=tuple(map(address, files.all("known"))),
        devices=tuple(files.all("device")),
        libraries=tuple(dict.fromkeys(filter(None, map(version, files.all("library"))))),
        xid=tuple(files.all("xid")),
        smi=smi,
        error=error,
        rows=rows,
        driver_hangs=hangs,
    )


def version(text: str) -> str:
    """A driver's version such as 535.54.03, "" for anything else."""
    return text if re.fullmatch(r"\d{2,4}(\.\d{1,4}){1,3}", text) else ""


def address(text: str) -> str:
    """A PCI address as sysfs has it; nvidia-smi writes the domain with eight digits, and capitals."""
    found = re.fullmatch(r"(?:[0-9a-f]{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", text.lower())
    return found[1] if found else clipped(text)


def _card(line: str) -> PciCard | None:
    words = line.split(" ")
    if len(words) != 4:
        return None
    return PciCard(address(words[0]), words[1], words[2], words[3] == "ffffffff")


def _row(line: str) -> SmiRow | None:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) not in (4, 5) or not parts[0].isdecimal():
        return None
    return SmiRow(parts[0], address(parts[1]), GpuDevice(parts[2], parts[3], (*parts, "")[4]))
