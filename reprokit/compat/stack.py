"""Make the stack of a recipe's variant, or of pins, for the machine that the user named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import PURPOSES, KnownGpu, KnownHost, Purpose, ResolvedVersion, Stack
from reprokit.compat.version import parts
from reprokit.errors import UsageError
from reprokit.recipe.fields import exact_version
from reprokit.recipe.pin_names import NOT_ON_PYPI, PIN_NAMES
from reprokit.recipe.spelling import nearest

if TYPE_CHECKING:
    from reprokit.compat.facts import Facts
    from reprokit.recipe.find import Target
    from reprokit.recipe.model import Source, Variant


_WITH_LOCAL_PART = ("torch", "torchvision", "torchaudio", "xformers", "vllm", "dgl", "jaxlib")
_OTHER_NAMES = {
    "pytorch": "torch", "tensorflow_gpu": "tensorflow", "opencv_python_headless": "opencv_python",
    "opencv_contrib_python": "opencv_python", "sklearn": "scikit_learn",
}  # fmt: skip
_DISTRO = re.compile(r"[a-z]+[:-]?[a-z0-9.]+")
_BASE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?")


def parse_pins(text: str) -> dict[str, str]:
    """`cuda=10.2,gcc=9` as a dict; `==` is `=`, `pytorch` is torch, `tensorflow-gpu` is tensorflow.

    Raises UsageError for unknown names, wrong versions and duplicates.
    """
    pins: dict[str, str] = {}
    for item in filter(None, re.split(r"[,\s]+", text.strip())):
        name, equals, value = item.partition("=")
        value = value.removeprefix("=")
        if not equals or not value:
            raise UsageError(f"{item!r} is not a pin", "--pins", "write NAME=VERSION, as in cuda=11.8,gcc=11")
        name = name.replace("-", "_")
        name = _OTHER_NAMES.get(name, name)
        check_pin(name, value, "--pins")
        if name in pins and pins[name] != value:
            raise UsageError(f"{name} is pinned twice, to {pins[name]} and to {value}", "--pins")
        pins[name] = value
    if not pins:
        raise UsageError("no pins are given", "--pins", "write for example --pins cuda=11.8,gcc=11")
    return pins


def check_pin(name: str, value: str, where: str) -> None:
    """Raises UsageError if `name` is not a pin or `value` cannot be a version of it."""
    if name not in PIN_NAMES:
        raise UsageError(f"unknown pin {name!r}{nearest(name, PIN_NAMES)}", where, "`reprokit help fields` lists them")
    if name == "base":
        if not _BASE.fullmatch(value):
            raise UsageError(f"base={value} is not an image reference", where, "write for example base=debian:12")
        return
    if name == "distro":
        if not _DISTRO.fullmatch(value):
            raise UsageError(f"distro={value} is not a distribution", where, "write for example distro=debian:12")
        return
    parsed = parts(value)
    if parsed is None or len(value) > 60:
        raise UsageError(
            f"{name}={value} is not a version", where, "write numbers and dots; 11 stands for every release 11.x"
        )
    if parsed[3] and name not in _WITH_LOCAL_PART:
        raise UsageError(
            f"{name}={value}: only {', '.join(_WITH_LOCAL_PART)} have builds",
            where,
            f"write {name}={value.partition('+')[0]}",
        )


def of_project(project: str) -> str | None:
    """The pin of a project of PyPI, None if there is none."""
    name = canonicalize_name(project).replace("-", "_")
    name = _OTHER_NAMES.get(name, name)
    return name if name in PIN_NAMES and name not in NOT_ON_PYPI else None


def resolved_wheels(
    versions: Iterable[tuple[str, str]], origin: str, built: bool = False
) -> dict[str, ResolvedVersion]:
    """The wheels that the facts can judge, from projects and versions. Most facts are about builds of PyPI."""
    wheels = {}
    for project, version in versions:
        name, read = of_project(project), parts(version)
        if name and read and (not read[3] or name in _WITH_LOCAL_PART):
            wheels[name] = ResolvedVersion(version, origin, built=built)
    return wheels


def check_driver(value: str) -> str:
    """Return a driver's version. Raises UsageError."""
    if not re.fullmatch(r"\d+(\.\d+){0,3}", value):
        raise UsageError(f"{value!r} is not a driver version", "--driver", "write it as nvidia-smi does: 470.57.02")
    return value


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
