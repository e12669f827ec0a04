"""What a lock wants of the world: files by content, and what is known of where they may be had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reprokit.supply.lock.model import AptPackage, Base, CondaPackage, Distribution, Lock, PlainFile, VariantLock


@dataclass(frozen=True)
class LockedInput:
    """One file. `kind` is that of the user's mirrors (`apt`, `wheels`, `conda`, `files`), `size` in bytes.

    `fields` are what templates of mirrors may name (`{archive}`, `{path}`, ...), `urls` addresses that the lock itself
    gives; the rest is `reprokit.supply.mirrors`' to know.
    """

    kind: str
    name: str
    sha256: str
    size: int
    fields: Mapping[str, str] = field(default_factory=dict)
    urls: tuple[str, ...] = ()


def of_apt(package: AptPackage, as_of: str = "") -> LockedInput:
    fields = {"archive": package.archive, "path": package.path, "as_of": as_of}
    name = f"{package.name} {package.version}"
    return LockedInput("apt", name, package.sha256, package.size, fields, (package.url,) if package.url else ())


def of_distribution(wheel: Distribution) -> LockedInput:
    fields = {"name": wheel.name, "version": wheel.version, "file": wheel.file}
    return LockedInput("wheels", wheel.file, wheel.sha256, wheel.size, fields)


def of_file(file: PlainFile) -> LockedInput:
    return LockedInput("files", file.name, file.sha256, file.size, {"name": file.name}, file.urls)


def of_conda(package: CondaPackage) -> LockedInput:
    fields = {"channel": package.channel, "subdir": package.subdir, "file": package.file}
    return LockedInput("conda", package.file, package.sha256, package.size, fields)


def of_base(base: Base) -> list[LockedInput]:
    made = base.bootstrap
    return [of_apt(package, made.as_of) for package in made.packages] if made else []


def of_variant(lock: VariantLock) -> list[LockedInput]:
    """Every file of a variant, each once. Git commits and base images of a registry are no files."""
    found: Iterable[LockedInput] = [
        *of_base(lock.base),
        *(of_apt(p, lock.apt_as_of) for p in lock.apt),
        *(of_distribution(w) for w in lock.wheels),
        *(of_file(file) for file in lock.files),
        *(of_conda(p) for p in lock.conda),
    ]
    return list({want.sha256: want for want in found}.values())


def of_data(lock: Lock) -> list[LockedInput]:
    return [of_file(file) for file in lock.data]
