"""The data of a check: its question (`Stack`) and its answers (`Finding`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "unknown", "info"]
Purpose = Literal["compile", "run", "ptx", "import"]
PURPOSES: tuple[Purpose, ...] = ("compile", "run", "ptx", "import")
# Purposes that compile code, or run it on a GPU.
COMPILE: tuple[Purpose, ...] = ("compile",)
GPU: tuple[Purpose, ...] = ("compile", "run", "ptx")
CODE: tuple[Purpose, ...] = ("compile", "run")
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown", "info")


@dataclass(frozen=True)
class Finding:
    """One answer. `nearest` holds pins that resolve it (`cuda=11.1`), `sources` ids of facts/sources.yaml.

    `remedy` is what the user can do, `fix` a command of `doctor --fix` that does it. A `doubtful` warning
    would be an error if its fact were verified.
    """

    severity: Severity
    rule: str
    subjects: tuple[str, ...]
    reason: str
    nearest: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    remedy: str = ""
    fix: str = ""
    doubtful: bool = False


@dataclass(frozen=True)
class KnownGpu:
    """A GPU by name and compute capability, such as (8, 6). `line` is geforce, datacenter, ... or empty.

    If not `verified`, no source states its capability; it causes warnings but no errors.
    """

    name: str
    capability: tuple[int, int]
    line: str = ""
    verified: bool = True

    @property
    def sm(self) -> int:
        """86 for capability 8.6."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def label(self) -> str:
        """As findings name it: `gpu=RTX 3090 (sm_86)`."""
        return f"gpu={self.name} (sm_{self.sm})"


@dataclass(frozen=True)
class KnownHost:
    """Sizes of the machine in bytes, None if unknown."""

    memory_bytes: int | None = None
    disk_free_bytes: int | None = None


@dataclass(frozen=True)
class ResolvedVersion:
    """A version that is no pin. `origin` is its source: `locked by recipes/x.lock.yaml`.

    If `matched`, a package manager that knows every build chose it to fit the others, as conda does. If `built`, its
    sdist is built if it has no wheel.
    """

    version: str
    origin: str
    matched: bool = False
    built: bool = False


@dataclass(frozen=True)
class Stack:
    """Pins, what they are for, and the machine they should work on. Sizes are bytes.

    `resolved` are the versions of a recipe's wheels and of its lock. A version that begins with the pin of its name
    makes this pin exact.

    `projects` are the source trees that are built, `bare_projects` those of them without their submodules. `declared`
    are the capabilities that a recipe is meant for, `requires_driver` is its lowest driver. With `pinned_exactly`
    the pin of every wheel must name a single release.
    """

    pins: Mapping[str, str]
    purpose: Purpose = "compile"
    gpus: tuple[KnownGpu, ...] = ()
    driver: str | None = None
    needs_apis: tuple[str, ...] = ()
    cxx_standard: str | None = None
    needs_gpu: Literal["required", "optional", "none"] = "optional"
    declared: tuple[tuple[int, int], ...] = ()
    requires_driver: str | None = None
    requires_memory: int = 0
    requires_disk: int = 0
    projects: tuple[str, ...] = ()
    bare_projects: tuple[str, ...] = ()
    pinned_exactly: bool = False
    host: KnownHost | None = None
    resolved: Mapping[str, ResolvedVersion] = field(default_factory=dict)
