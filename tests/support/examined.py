"""A machine that checks of `doctor` look at: a tree of files, programs on PATH, and an engine of plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reprokit.compat.model import Finding
from reprokit.doctor.checks import CHECKS
from reprokit.doctor.examine import examine
from reprokit.doctor.examined import Examined
from reprokit.doctor.shell import LocalShell, Reported
from reprokit.engine import EngineInfo, EngineVersion
from reprokit.errors import EngineError
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe
from tests.support.nvidia_smi import write_smi

INFO = {
    "ServerVersion": "24.0.7",
    "Driver": "overlay2",
    "DriverStatus": [["Backing Filesystem", "extfs"], ["Supports d_type", "true"]],
    "DockerRootDir": "/var/lib/docker",
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "SecurityOptions": ["name=seccomp,profile=builtin"],
    "MemoryLimit": True,
    "Runtimes": {"runc": {}},
}


class PlainEngine:
    """The part of `Engine` that checks ask. `info` is what it reports; `cdi` are its CDI devices."""

    def __init__(self, info: Any = INFO, cdi: tuple[str, ...] = (), inside: str = "") -> None:
        self._info, self._cdi, self._inside = info, cdi, inside

    def info(self) -> EngineInfo:
        return EngineInfo.of(self._info)

    def version(self) -> EngineVersion:
        return EngineVersion(api="1.43")

    def cdi_devices(self, info: EngineInfo) -> tuple[str, ...]:
        return tuple(self._cdi)

    def container(self, name: str) -> dict[str, Any] | None:
        return {} if name == self._inside else None


class _PatientShell(LocalShell):
    """Waits longer than users would, because the machine that runs the tests is busy."""

    def ask(self, script: str, limit_s: float = 30) -> Reported:
        return super().ask(script, limit_s)


class FakeMachine:
    """Files below `root`; programs in `bin`, which precede those of the machine that runs the tests."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.root, self.programs = root, programs
        self.engine: PlainEngine | None = PlainEngine()
        self.target: Target | None = None
        for folder in (root, programs):
            folder.mkdir()

    def file(self, path: str, content: str | bytes = "") -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def program(self, name: str, body: str) -> None:
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def smi(self, *rows: dict[str, str]) -> None:
        """An nvidia-smi of these GPUs: it refuses a query with a field that they do not have, as drivers do."""
        write_smi(self.programs / "nvidia-smi", *rows)

    def gpu(self, address: str, driver: str = "nvidia", dead: bool = False) -> None:
        """An NVIDIA GPU on the PCI bus."""
        card = f"sys/bus/pci/devices/{address}"
        self.file(f"{card}/vendor", "0x10de\n")
        self.file(f"{card}/class", "0x030200\n")
        self.file(f"{card}/device", "0x2204\n")
        self.file(f"{card}/config", b"\xff" * 64 if dead else b"\xde\x10\x04\x22" + bytes(60))
        if driver:
            (self.root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
            (self.root / card / "driver").symlink_to(f"../../drivers/{driver}")

    def working_gpu(self, address: str = "0000:65:00.0") -> None:
        """An A100 with its driver and nvidia-smi."""
        self.gpu(address)
        self.driver("550.54.14", address)
        self.smi({"index": "0", "pci.bus_id": f"0000{address}", "name": "NVIDIA A100", "driver_version": "550.54.14"})

    def driver(self, version: str, *gpus: str) -> None:
        """A loaded driver that knows the GPUs at these addresses, with its device files and libraries."""
        self.file("sys/module/nvidia/version", f"{version}\n")
        for address in gpus:
            self.file(f"proc/driver/nvidia/gpus/{address}/information", "Model: x\n")
        for name in ("nvidiactl", "nvidia0", "nvidia-uvm"):
            self.file(f"dev/{name}")
        self.file(f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}")

    def host(self) -> Examined:
        def connect() -> Any:
            if self.engine is None:
                raise EngineError("no Docker Engine answers: [Errno 2] No such file or directory", "unix:///nope", "x")
            return self.engine

        return Examined(_PatientShell(str(self.root)), connect, self.target)

    def find(self, *names: str) -> list[Finding]:
        """The findings of these checks; an error in one is no finding here."""
        found = examine(self.host(), {name: CHECKS[name] for name in names}, 60)
        assert [finding for finding in found if "not checked" in finding.reason and ": " in finding.reason[14:]] == []
        return found

    def rules(self, *names: str) -> set[str]:
        """The rules that found something wrong."""
        return {finding.rule for finding in self.find(*names) if finding.severity in ("error", "warning")}


def target(variant: dict[str, Any]) -> Target:
    """A recipe of one variant."""
    paper = {"title": "T", "venue": "V", "year": 2020, "licence": "none"}
    recipe = Recipe.model_validate({"name": "x", "paper": paper, "variants": {"v": variant}})
    return Target(recipe, "v", Path("x.yaml"))
