"""Stacks: of a recipe's variant, or of pins, for the machine that the user named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement

from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import PURPOSES, KnownGpu, KnownHost, Purpose, ResolvedVersion, Stack
from reprokit.compat.pins import check_driver, parse_pins, resolved_wheels
from reprokit.errors import UsageError
from reprokit.recipe.fields import exact_version

if TYPE_CHECKING:
    from reprokit.compat.facts import Facts
    from reprokit.recipe.find import Target
    from reprokit.recipe.model import Source, Variant


def stack_of(
    variant: Variant,
    gpus: tuple[KnownGpu, ...] = (),
    driver: str | None = None,
    host: KnownHost | None = None,
    no_gpu: bool = False,
    resolved: Mapping[str, ResolvedVersion] = MappingProxyType({}),
) -> Stack:
    """The variant's pins and needs. Without `gpus` its own compute capabilities are used; `no_gpu` removes all.

    `resolved` are versions that are no pins, see `stated_wheels`.
    """
    requires = variant.requires
    declared = tuple(_capability(c) for c in requires.compute_capability)
    if no_gpu or requires.gpu == "none":
        gpus = ()
    elif not gpus:
        gpus = tuple(KnownGpu(f"capability {major}.{minor}", (major, minor)) for major, minor in declared)
    return Stack(
        pins={**variant.pins, "base": variant.base},
        purpose=variant.purpose,
        gpus=gpus,
        driver=None if no_gpu else driver,
        needs_apis=tuple(variant.needs_apis),
        cxx_standard=variant.cxx_standard,
        needs_gpu="none" if no_gpu else requires.gpu,
        declared=declared,
        requires_driver=requires.driver,
        requires_memory=requires.memory,
        requires_disk=requires.disk,
        projects=tuple(_project(s) for s in variant.sources),
        bare_projects=tuple(_project(s) for s in variant.sources if not _has_submodules(s, variant.sources)),
        pinned_exactly=True,
        host=host,
        resolved=resolved,
    )


def stated_wheels(requirements: Iterable[str]) -> dict[str, ResolvedVersion]:
    """The exact versions among requirements. Beside ranges, a release without a wheel is built from its sdist."""
    read = list(map(Requirement, requirements))
    exact = ((r.name, exact_version(r) or "") for r in read if not r.marker)
    return resolved_wheels(exact, "stated under `wheels`", built=any(exact_version(r) is None for r in read))


def _project(source: Source) -> str:
    """`taco` of https://github.com/tensor-compiler/taco."""
    return source.git.rstrip("/").rpartition("/")[2].lower()


def _has_submodules(source: Source, sources: list[Source]) -> bool:
    """Whether submodules are checked out, or replaced by another source."""
    return bool(source.submodules) or any(s.path.startswith(f"{source.path}/") for s in sources)


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class RequestedMachine:
    """The GPUs, the driver and the purpose that `check` and `solve` were given."""

    gpus: tuple[KnownGpu, ...]
    no_gpu: bool
    driver: str | None
    purpose: Purpose | None

    def stack_of_pins(self, pins: str) -> Stack:
        """Raises UsageError."""
        driver = None if self.no_gpu else self.driver
        needs_gpu: Literal["required", "optional"] = "required" if self.gpus else "optional"
        return Stack(parse_pins(pins), self.purpose or "compile", self.gpus, driver, needs_gpu=needs_gpu)

    def stack_of(
        self,
        target: Target,
        host: KnownHost | None = None,
        resolved: Mapping[str, ResolvedVersion] = MappingProxyType({}),
    ) -> Stack:
        """The stack of a recipe's variant. `host` is checked for memory and disk, `resolved` beside the pins."""
        stack = stack_of(target.variant, self.gpus, self.driver, host, self.no_gpu, resolved)
        return replace(stack, purpose=self.purpose) if self.purpose else stack


def requested_machine(facts: Facts, gpu: list[str], driver: str, purpose: str) -> RequestedMachine:
    """Raises UsageError."""
    chosen = next((p for p in PURPOSES if p == purpose), None)
    if purpose and chosen is None:
        raise UsageError(f"--for {purpose} is not a purpose", hint=f"write one of {', '.join(PURPOSES)}")
    parsed = [parse_gpu(facts, name) for name in gpu]
    gpus = tuple(dict.fromkeys(g for g in parsed if g is not None))
    if gpus and None in parsed:
        raise UsageError("--gpu none excludes other GPUs")
    return RequestedMachine(gpus, bool(parsed) and not gpus, check_driver(driver) if driver else None, chosen)
