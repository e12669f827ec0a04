"""What rules look at: the stack's pins and those its base image brings, each as the releases it stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from reprokit.compat.base import Base, parse_base
from reprokit.compat.facts import Facts
from reprokit.compat.known import covering
from reprokit.compat.model import Stack
from reprokit.compat.version import local


@dataclass(frozen=True)
class Pin:
    """A pin in force. `versions` are the known releases it stands for, () where no fact covers it."""

    name: str
    text: str
    versions: tuple[str, ...]
    from_base: bool = False

    @property
    def label(self) -> str:
        """As findings name it: `cuda=10.2`."""
        return f"{self.name}={self.text}"

    @property
    def local(self) -> str:
        """`cu111` of torch=1.8.0+cu111."""
        return local(self.text)


class View:
    """A stack with the facts; every rule reads through one."""

    def __init__(self, facts: Facts, stack: Stack) -> None:
        self.facts = facts
        self.stack = stack
        self._pins: dict[str, Pin | None] = {}

    @cached_property
    def base(self) -> Base | None:
        text = self.stack.pins.get("base")
        return parse_base(self.facts, text) if text else None

    def pin(self, name: str) -> Pin | None:
        """The explicit pin, else what the base image brings, else None."""
        if name not in self._pins:
            self._pins[name] = self._find(name)
        return self._pins[name]

    def known(self, name: str) -> Pin | None:
        """Like `pin`, but None where no fact covers it."""
        found = self.pin(name)
        return found if found is not None and found.versions else None

    def _find(self, name: str) -> Pin | None:
        text = self.stack.pins.get(name)
        if text:
            return Pin(name, text, covering(self.facts, name, text))
        implied = self.base.implied.get(name) if self.base else None
        if implied:
            return Pin(name, implied, covering(self.facts, name, implied), from_base=True)
        return None

    def changed(self, name: str, text: str) -> View:
        """The same with one pin (or the driver) set otherwise."""
        if name == "driver":
            return View(self.facts, replace(self.stack, driver=text))
        return View(self.facts, replace(self.stack, pins={**self.stack.pins, name: text}))
