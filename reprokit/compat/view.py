"""The rules' view of a stack: its pins and those of its base image, each with the releases it stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from reprokit.compat.base import IMPLIED, ParsedBase, parse_base
from reprokit.compat.facts import Facts
from reprokit.compat.model import ResolvedVersion, Stack
from reprokit.compat.releases import TorchWheel, assumed_build, matching_releases, torch_wheel
from reprokit.compat.schema import Distro
from reprokit.compat.version import begins, local, parts, series

_DISPLAY = {
    "cuda": "CUDA", "cudnn": "cuDNN", "tvm": "TVM", "dgl": "DGL", "llvm": "LLVM", "cmake": "CMake", "python": "Python",
    "cutlass": "CUTLASS", "flash_attn": "flash-attn", "cuda_minor": "CUDA",
}  # fmt: skip


@dataclass(frozen=True)
class Pin:
    """A version in force. `versions` are the releases it stands for, () if no fact covers it.

    `resolved` is set if it is no pin, or more exact than the pin.
    """

    name: str
    text: str
    versions: tuple[str, ...]
    from_base: bool = False
    resolved: ResolvedVersion | None = None

    @property
    def label(self) -> str:
        """As findings name it: `cuda=10.2`."""
        return f"{self.name}={self.text}"

    @property
    def local(self) -> str:
        """`cu111` of torch=1.8.0+cu111."""
        return local(self.text)


@dataclass(frozen=True)
class Side:
    """One side of a combination: its subject, and the releases it stands for, each with a label."""

    subject: str
    releases: list[tuple[str, Any]]


class View:
    """A stack with the facts; every rule reads through one."""

    def __init__(self, facts: Facts, stack: Stack) -> None:
        self.facts = facts
        self.stack = stack
        self._pins: dict[str, Pin | None] = {}
        self._sides: dict[str, list[Side]] = {}

    @cached_property
    def base(self) -> ParsedBase | None:
        text = self.stack.pins.get("base")
        return parse_base(self.facts, text) if text else None

    @property
    def driver(self) -> str | None:
        """The driver's version, None if unknown or no version."""
        driver = self.stack.driver
        return driver if driver and parts(driver) else None

    def pin(self, name: str) -> Pin | None:
        """The explicit pin, else what was resolved, else what the base image brings, else None."""
        if name not in self._pins:
            self._pins[name] = self._find(name)
        return self._pins[name]

    def known_pin(self, name: str) -> Pin | None:
        """Like `pin`, but None if no fact covers it."""
        pin = self.pin(name)
        return pin if pin is not None and pin.versions else None

    def distro(self, name: str) -> Distro:
        """The facts on a distribution, such as `debian:12`."""
        return self.facts.distros.distros[name]

    def sides(self, name: str) -> list[Side]:
        """The sides of a name: a pin, `cuda_minor`, `torch_wheel`, `gpu`, `driver` or `cxx_standard`."""
        if name not in self._sides:
            self._sides[name] = self._combined(name)
        return self._sides[name]

    def _combined(self, name: str) -> list[Side]:
        if name == "gpu":
            return [Side(gpu.label, [("", gpu)]) for gpu in self.stack.gpus]
        if name in ("driver", "cxx_standard"):
            value = self.driver if name == "driver" else self.stack.cxx_standard
            return [Side(f"{name}={value}", [("", value)])] if value else []
        pin = self.known_pin({"cuda_minor": "cuda", "torch_wheel": "torch"}.get(name, name))
        if pin is None:
            return []
        if name == "torch_wheel":
            return [Side(pin.label, [(wheel.label, wheel) for wheel in self.torch_wheels()])]
        versions = dict.fromkeys(map(series, pin.versions)) if name == "cuda_minor" else pin.versions
        shown = _DISPLAY.get(name, name)
        return [
            Side(pin.label, [(version if name == "distro" else f"{shown} {version}", version) for version in versions])
        ]

    def torch_wheels(self) -> list[TorchWheel]:
        """The wheels of the torch pin; without a build, those that fit the CUDA pin."""
        torch = self.known_pin("torch")
        return [torch_wheel(self.facts, v, self.torch_build(v)) for v in torch.versions] if torch else []

    def torch_build(self, version: str) -> str:
        """The build of the torch pin; a recipe's pin without a build means the wheel on PyPI, as in its lock."""
        torch = self.known_pin("torch")
        if torch is None or torch.local or self.stack.pinned_exactly:
            return torch.local if torch else ""
        cuda = self.known_pin("cuda")
        return assumed_build(self.facts, version, cuda.versions) if cuda and not cuda.from_base else ""

    def _find(self, name: str) -> Pin | None:
        text, resolved = self.stack.pins.get(name), self.stack.resolved.get(name)
        if resolved and (not text or _stands_for(text, resolved)):
            versions = matching_releases(self.facts, name, resolved.version)
            if versions or not text:
                return Pin(name, resolved.version, versions, resolved=resolved)
        if text:
            return Pin(name, text, matching_releases(self.facts, name, text))
        # The solver records reads: a pin that no image implies must not read the base.
        implied = self.base.implied.get(name) if name in IMPLIED and self.base else None
        if implied:
            return Pin(name, implied, matching_releases(self.facts, name, implied), from_base=True)
        return None

    def changed(self, name: str, text: str) -> View:
        """The same stack with one pin (or the driver) replaced."""
        if name == "driver":
            return View(self.facts, replace(self.stack, driver=text))
        changed = View(self.facts, replace(self.stack, pins={**self.stack.pins, name: text}))
        if name != "base":  # which implies other pins
            changed.base = self.base
            changed._pins = {other: pin for other, pin in self._pins.items() if other != name}
        return changed


def _stands_for(pin: str, resolved: ResolvedVersion) -> bool:
    """Whether a resolved version is more exact than its pin; torch 1.13.1 does not mean the build 1.13.1+cu117."""
    more = resolved.matched or resolved.version != pin
    return more and begins(pin, resolved.version) and local(pin) in ("", local(resolved.version))
