"""The GPUs of a machine: what the PCI bus, the driver's files and nvidia-smi each report."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.doctor.bounded import Bounded, NoAnswer
from reprokit.doctor.shell import Reported, Shell, clipped
from reprokit.host import gpu
from reprokit.host.gpu import DEVICE_FILES, Gpu, SmiAnswer, address, version

SMI_S = gpu.SMI_S
# The configuration of a card that fell off the bus reads as ones.
_PCI = """
for card in "$ROOT"/sys/bus/pci/devices/*; do
  vendor= class= device=
  { read -r vendor <"$card/vendor" && read -r class <"$card/class"; } 2>/dev/null
  [ "$vendor" = 0x10de ] || continue
  case $class in 0x03*) ;; *) continue ;; esac
  driver=$(readlink "$card/driver")
  head=$(od -An -v -tx1 -N4 "$card/config" 2>/dev/null | tr -d ' \\n')
  echo "${card##*/} ${driver##*/} ${head:-?}" | say card
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


@dataclass(frozen=True)
class PciCard:
    """An NVIDIA GPU on the PCI bus. `driver` is the kernel module that uses it; a `dead` card does not answer."""

    address: str
    driver: str
    dead: bool


@dataclass(frozen=True)
class GpuState:
    """`module` is the version of the loaded kernel module, `libraries` those of NVML.

    `driver_cards` are the addresses of the driver's cards. `driver_hangs` is set if the driver's files do not answer.
    """

    smi: SmiAnswer
    cards: tuple[PciCard, ...] = ()
    module: str = ""
    driver_cards: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    xid: tuple[str, ...] = ()
    driver_hangs: bool = False

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that nvidia-smi lists."""
        return self.smi.gpus

    @property
    def present(self) -> bool:
        """Whether the machine has an NVIDIA GPU, working or not."""
        return bool(self.cards or self.gpus or self.devices)

    @property
    def driver(self) -> str:
        """The version of the loaded driver, "" if there is none."""
        return self.module or clipped(next((card.driver for card in self.gpus), ""))

    @property
    def hangs(self) -> bool:
        return self.smi.status == "hangs" or self.driver_hangs


def state(shell: Shell) -> GpuState:
    """Query the bus, the driver's files and nvidia-smi, each in bounded time. Raises NoAnswer for the bus."""
    question = Bounded(lambda: shell.ask(gpu.script(SMI_S), SMI_S + 1), SMI_S + 2)
    question.start()
    bus = shell.ask(_PCI)
    try:
        files, hangs = shell.ask(_DRIVER, SMI_S / 2), False
    except NoAnswer:
        files, hangs = Reported({}), True
    try:
        smi = gpu.parse(question.result().lines)
    except NoAnswer:
        smi = SmiAnswer("hangs")
    return GpuState(
        smi=smi,
        cards=tuple(filter(None, map(_card, bus.all("card")))),
        module=version(bus.first("module")),
        driver_cards=tuple(map(address, files.all("known"))),
        devices=tuple(files.all("device")),
        libraries=tuple(dict.fromkeys(filter(None, map(version, files.all("library"))))),
        xid=tuple(files.all("xid")),
        driver_hangs=hangs,
    )


def _card(line: str) -> PciCard | None:
    words = line.split(" ")
    return PciCard(clipped(address(words[0])), words[1], words[2] == "ffffffff") if len(words) == 3 else None
