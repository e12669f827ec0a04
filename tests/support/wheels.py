"""Wheels without code."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import Distribution

PYTHON_311 = Platform("3.11", "2.36")
Lock = Callable[..., "tuple[Distribution, ...]"]


def make_wheel(
    folder: Path, name: str, version: str, requires: tuple[str, ...] = (), tag: str = "py3-none-any"
) -> Path:
    """An installable wheel with metadata and no code."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def names(found: Iterable[Distribution]) -> list[str]:
    return [f"{wheel.name}=={wheel.version}" for wheel in found]
