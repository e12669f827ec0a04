"""Resolve apt packages with the base's own apt, as the build installs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext

from reprokit.errors import ReprokitError, SourceError, UsageError
from reprokit.recipe.spelling import nearest
from reprokit.supply.kinds.apt.container import BaseApt, CommandResult
from reprokit.supply.kinds.apt.drift import moved_packages
from reprokit.supply.kinds.apt.install import AptInstall, FollowedSets, enable
from reprokit.supply.kinds.apt.output import as_of, in_order, listed, packages_of
from reprokit.supply.kinds.kind import Moved, Tools
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store


def lock_apt(
    installs: Sequence[AptInstall], tools: Tools, followed: FollowedSets | None = None
) -> tuple[tuple[AptPackage, ...], str]:
    """The packages that these installs download on the base, with dependencies and upgrades of the base's own.

    The set of a block is what it downloads besides the packages of earlier blocks. Also the date of their package
    lists, as `20261121T101500Z`. Only the lists are downloaded. Installs in `followed` are not resolved. Raises
    UsageError or SourceError naming the package and its block, EngineError.
    """
    followed = followed or FollowedSets()
    # What is installed after a list of requests, and the blocks that take in each package.
    installed: dict[tuple[str, ...], set[AptPackage]] = {}
    takers: dict[AptPackage, set[str]] = {}
    enabled: set[str] = set()
    resolved = any(install not in followed.sets for install in installs)
    with BaseApt(tools) if resolved else nullcontext() as apt:
        for install in installs:
            before, requested = installed.get(install.before, set()), (*install.before, *install.packages)
            taken = set(followed.sets.get(install, ()))
            if apt:
                _enable(apt, install.components, enabled)
            if apt and install not in followed.sets:
                taken = _downloads(apt, install, tools.store) - before
            installed[requested] = before | taken
            for package in taken:
                takers.setdefault(package, set()).add(install.block)
        packages = in_order(p.model_copy(update={"blocks": tuple(sorted(of))}) for p, of in takers.items())
        return packages, (as_of(packages, _lists(apt, packages)) if apt else "") or followed.as_of


def _downloads(apt: BaseApt, install: AptInstall, store: Store) -> set[AptPackage]:
    """What apt downloads for an install and those before it."""
    command = ["apt-get", "install", "-q", "--yes", "--no-install-recommends", "--print-uris"]
    answer = apt.ask([*command, *dict.fromkeys((*install.before, *install.packages))])
    if answer.code:
        raise _explained(apt, install, answer)
    return set(packages_of(answer.output, store))


def moved_apt(installs: Sequence[AptInstall], locked: Sequence[AptPackage], tools: Tools) -> list[Moved]:
    """The locked packages that the base's archives list in another newest version, or not at all."""
    if not locked:
        return []
    with BaseApt(tools) as apt:
        enabled: set[str] = set()
        for install in installs:
            _enable(apt, install.components, enabled)
        return moved_packages("apt", locked, _newest(_lists(apt, locked)))


def _newest(text: str) -> dict[str, str]:
    """The newest version of each package in the output of `apt-cache madison`."""
    newest: dict[str, str] = {}
    for line in listed(text):
        newest.setdefault(line.name, line.version)
    return newest


def _enable(apt: BaseApt, components: Sequence[str], enabled: set[str]) -> None:
    """Enable these components for the installs that follow, as their blocks do."""
    if set(components) - enabled:
        enabled |= set(components)
        apt.ask(["sh", "-c", "; ".join(enable(components))])
        apt.update()


def _lists(apt: BaseApt, packages: Sequence[AptPackage]) -> str:
    """The available versions of these packages, and the dates of the lists."""
    versions = apt.ask(["apt-cache", "madison", *dict.fromkeys(p.name for p in packages)]).output
    return versions + apt.ask(["sh", "-c", "grep -H ^Date: /var/lib/apt/lists/*Release"]).output


def _explained(apt: BaseApt, install: AptInstall, answer: CommandResult) -> ReprokitError:
    """apt's error as one of the block, with alternatives."""
    where = f"block {install.block}"
    if version := re.search(r"^E: Version '(\S+)' for '(\S+)' was not found", answer.errors, re.MULTILINE):
        known = [line.version for line in listed(apt.ask(["apt-cache", "madison", version[2]]).output)]
        hint = f"versions for {apt.base.reference}: {', '.join(dict.fromkeys(known)) or 'none'}"
        return UsageError(f"no such version: {version[2]} {version[1]}", where, hint)
    unknown = re.search(
        r"^E: (?:Unable to locate package|Couldn't find any package by \S+|Package) '?([^\s']+)'?"
        r"(?: has no installation candidate)?$",
        answer.errors,
        re.MULTILINE,
    )
    if unknown:
        name = unknown[1]
        near = nearest(name, apt.ask(["apt-cache", "pkgnames", name[:3]]).output.split())
        return UsageError(f"{apt.base.reference} has no package {name}{near}", where)
    text = answer.output + answer.errors
    unmet = re.search(r"^The following packages have unmet dependencies:\n((?: .*\n)+)", text, re.MULTILINE)
    if unmet:
        causes = "; ".join(" ".join(line.split()) for line in unmet[1].splitlines()[:4])
        return SourceError(f"{' '.join(install.packages)} cannot be installed: {causes}", where)
    first = next((line for line in answer.errors.splitlines() if line.startswith("E: ")), answer.errors.strip())
    return SourceError(f"apt cannot resolve {' '.join(install.packages)}: {first}", where)
