"""Pins as users write them on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.utils import canonicalize_name

from reprokit.compat.model import ResolvedVersion
from reprokit.compat.version import parts
from reprokit.errors import UsageError
from reprokit.recipe.pin_names import NOT_ON_PYPI, PIN_NAMES
from reprokit.recipe.spelling import nearest

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
    found: dict[str, str] = {}
    for item in filter(None, re.split(r"[,\s]+", text.strip())):
        name, equals, value = item.partition("=")
        value = value.removeprefix("=")
        if not equals or not value:
            raise UsageError(f"{item!r} is not a pin", "--pins", "write NAME=VERSION, as in cuda=11.8,gcc=11")
        name = name.replace("-", "_")
        name = _OTHER_NAMES.get(name, name)
        check_pin(name, value, "--pins")
        if name in found and found[name] != value:
            raise UsageError(f"{name} is pinned twice, to {found[name]} and to {value}", "--pins")
        found[name] = value
    if not found:
        raise UsageError("no pins are given", "--pins", "write for example --pins cuda=11.8,gcc=11")
    return found


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
    found = parts(value)
    if found is None or len(value) > 60:
        raise UsageError(
            f"{name}={value} is not a version", where, "write numbers and dots; 11 stands for every release 11.x"
        )
    if found[3] and name not in _WITH_LOCAL_PART:
        raise UsageError(
            f"{name}={value}: only {', '.join(_WITH_LOCAL_PART)} have builds",
            where,
            f"write {name}={value.partition('+')[0]}",
        )


def of_project(project: str) -> str | None:
    """The pin that is about a project of PyPI, None if there is none."""
    name = canonicalize_name(project).replace("-", "_")
    name = _OTHER_NAMES.get(name, name)
    return name if name in PIN_NAMES and name not in NOT_ON_PYPI else None


def resolved_wheels(
    versions: Iterable[tuple[str, str]], origin: str, built: bool = False
) -> dict[str, ResolvedVersion]:
    """What the facts can judge of wheels: project and version. The facts on most packages are on builds of PyPI."""
    found = {}
    for project, version in versions:
        name, read = of_project(project), parts(version)
        if name and read and (not read[3] or name in _WITH_LOCAL_PART):
            found[name] = ResolvedVersion(version, origin, built=built)
    return found


def check_driver(value: str) -> str:
    """A driver's version. Raises UsageError."""
    if not re.fullmatch(r"\d+(\.\d+){0,3}", value):
        raise UsageError(f"{value!r} is not a driver version", "--driver", "write it as nvidia-smi does: 470.57.02")
    return value
