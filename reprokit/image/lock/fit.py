"""Whether a variant can be built: the facts on its pins, its wheels and the versions in its lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.model import Finding, ResolvedVersion
from reprokit.compat.stack import stack_of
from reprokit.display import notify
from reprokit.errors import WorkFailed
from reprokit.host.fit import in_words
from reprokit.image.lock.read import stale, variant_lock
from reprokit.recipe.find import Target
from reprokit.recipe.pin_names import NOT_ON_PYPI
from reprokit.supply.kinds import all_kinds
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import VariantLock

_LOCKED = "locked by "


def resolved_versions(target: Target) -> dict[str, ResolvedVersion]:
    """The versions that the variant's wheels state, and those of the sections of its lock that are not stale.

    Raises UsageError if recipe or lock cannot be read.
    """
    lock = variant_lock(target)
    # Compiling the templates, on which only apt depends, would take a quarter of the time of `check`.
    return _resolved(target, lock, stale(target, None, lock) if lock else ())


def _resolved(target: Target, lock: VariantLock | None, without: Collection[str] = ()) -> dict[str, ResolvedVersion]:
    """The versions that no pin states, without those of stale sections of the lock."""
    origin = f"{_LOCKED}{lock_path(target.path)}"
    versions: dict[str, ResolvedVersion] = {}
    # The base's own packages come first; wheels replace those of conda.
    for kind in sorted(reversed(all_kinds()), key=lambda kind: not kind.in_base):
        stale_section = ("base" if kind.in_base else kind.name) in without
        versions |= kind.versions(target, None if stale_section else lock, origin)
    return versions


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
