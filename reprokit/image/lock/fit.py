"""Whether a variant can be built: the facts on its pins, its wheels and the versions in its lock."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.model import Finding, ResolvedVersion
from reprokit.compat.stack import of_project, resolved_wheels, stack_of, stated_wheels
from reprokit.compat.version import begins, parts
from reprokit.display import notify
from reprokit.errors import WorkFailed
from reprokit.host.fit import in_words
from reprokit.image.lock.read import stale, variant_lock
from reprokit.recipe.find import Target
from reprokit.recipe.pin_names import NOT_ON_PYPI, PACKAGES
from reprokit.supply.kinds.wheels.resolve import installed
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import AptPackage, VariantLock

# Packages of a distribution that a pin is about, and those that have its version in their names.
_APT = {"cmake": "cmake", "nvidia-cuda-toolkit": "cuda"}
_APT_WITH_VERSION = re.compile(r"(gcc|clang|llvm|python)-?([0-9.]+)(?:-dev)?")
# `1:14.0.6-12`, or Debian's CUDA: the compiler's version before that of the toolkit in `11.8.89~11.8.0-5~deb12u1`.
_UPSTREAM = re.compile(r"(?:\d+:)?(?:[\d.]+~)?(\d+(?:\.\d+)*)")
# The facts are about wheels; other conda packages are built differently.
_CONDA = ("python", "numpy", *PACKAGES)
_LOCKED = "locked by "


def resolved_versions(target: Target) -> dict[str, ResolvedVersion]:
    """The versions that the variant's wheels state, and those of the sections of its lock that are not stale.

    Raises UsageError if recipe or lock cannot be read.
    """
    lock = variant_lock(target)
    # Compiling the templates, on which only apt depends, would take a quarter of the time of `check`.
    return _resolved(target, lock, stale(target, None, lock) if lock else ())


def _resolved(target: Target, lock: VariantLock | None, without: Collection[str] = ()) -> dict[str, ResolvedVersion]:
    """The versions that no pin states, without those of stale sections of the lock; apt's depend on the base."""
    stated = stated_wheels(requirement.text for requirement in target.wheels)
    if lock is None:
        return stated
    origin = f"{_LOCKED}{lock_path(target.path)}"
    apt = () if "base" in without else _of_apt(lock.apt, target.variant.pins)
    versions = {name: ResolvedVersion(version, origin) for name, version in apt}
    if "conda" not in without:
        for package in lock.conda:
            name = "python" if package.name == "python" else of_project(package.name)
            if name in _CONDA and parts(package.version):
                versions[name] = ResolvedVersion(package.version, origin, matched=True)
    if "wheels" not in without:
        # The block wheels comes last and replaces packages that other blocks install.
        wheels = sorted(lock.wheels, key=lambda wheel: "wheels" in wheel.blocks)
        locked = resolved_wheels(installed(wheels), origin)
        stated = {name: stated.get(name, version) for name, version in locked.items()}
    return versions | stated


def _of_apt(packages: Collection[AptPackage], pins: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The exact versions of pinned programs; other packages may depend on other versions of the same program."""
    for package in packages:
        name = _APT.get(package.name, "")
        if match := _APT_WITH_VERSION.fullmatch(package.name):
            name = match[1] if begins(match[2], pins.get(match[1], "")) else ""
        if name in pins and (upstream := _UPSTREAM.match(package.version)):
            yield name, upstream[1]


def findings(target: Target, resolved: Mapping[str, ResolvedVersion] | None = None) -> list[Finding]:
    """What `check` finds in a variant's pins and its lock, whatever the host. Raises UsageError."""
    versions = resolved_versions(target) if resolved is None else resolved
    return evaluate(bundled(), stack_of(target.variant, resolved=versions))


def errors_of(target: Target, force: bool, lock: VariantLock | None = None) -> list[str]:
    """The errors that `force` ignores, one line each. `lock` is one that is not written yet.

    Raises WorkFailed if there are errors and no `force`.
    """
    resolved = _resolved(target, lock) if lock else resolved_versions(target)
    faults = [finding for finding in findings(target, resolved) if finding.severity == "error"]
    errors = [in_words(finding) for finding in faults]
    if errors and not force:
        remedies = [f"find pins that work with `reprokit check {target.label}`"]
        names = (subject.partition("=")[0] for finding in faults for subject in finding.subjects)
        wheels = [n for n in dict.fromkeys(names) if n not in NOT_ON_PYPI and _is_locked(resolved.get(n))]
        if wheels:
            again = " ".join(f"--update {name.replace('_', '-')}" for name in wheels)
            remedies.append(f"resolve wheels again with `reprokit lock {target.label} {again}`")
        remedies.append(f"{'lock' if lock else 'build'} anyway with --force")
        raise WorkFailed("\n  ".join([f"{target.label} cannot work:", *errors]), hint=", or ".join(remedies))
    for error in errors:
        notify(f"ignored because of --force: {error}")
    return errors


def _is_locked(version: ResolvedVersion | None) -> bool:
    return version is not None and version.origin.startswith(_LOCKED)
