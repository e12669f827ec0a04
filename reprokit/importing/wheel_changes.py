"""Exact versions for a requirement that a recipe gets later, as of its day, beside the wheels that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reprokit.compat.facts import Facts
from reprokit.errors import SourceError
from reprokit.importing.permitted import RecipeChange, installed
from reprokit.importing.requirement_facts import ANY_TIME, just_after
from reprokit.importing.torch_build import torch_block
from reprokit.recipe.model import Variant
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.listing import Listing
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_versions
from reprokit.supply.mirrors.places import Mirrors


@dataclass(frozen=True)
class WheelChanges:
    """Resolves a requirement. `time` and `later` are those with which the recipe's other wheels were resolved."""

    time: str
    later: Mapping[str, str]
    mirrors: Mirrors
    facts: Facts

    def of(self, variant: Variant, requirement: Requirement) -> list[RecipeChange] | str:
        """The entries of `wheels`, and the pins of the same names, that change; or why no versions fit."""
        name, have = canonicalize_name(requirement.name), installed(variant)
        if not (self.mirrors.pip.indexes or self.mirrors.pip.find_links):
            return f"{requirement}: no package index is configured"
        platform = Platform(variant.pins["python"], self.facts.distros.distros[variant.pins["distro"]].glibc)
        others = {other: version for other, version in have.items() if other != name}
        failures: list[SourceError] = []
        # If the project has no release by that day, take its first one, else any.
        times = [self._first(name, platform), ANY_TIME] if self.time else []
        for later in (self.later, *({**self.later, name: time} for time in times if time)):
            # The others stay, also those that are younger than the day; where they cannot, they follow.
            stay = (
                [f"{other}=={version}" for other, version in others.items()],
                {**dict.fromkeys(others, "false"), **later},
            )
            for required, allowed in (stay, ([*others], later)):
                request = WheelRequest(
                    [str(requirement), *required],
                    platform,
                    variant.sdists,
                    variant.wheel_indexes,
                    AsOf(self.time, allowed),
                )
                try:
                    found = resolve_versions(request, self.mirrors, others)
                except uv.Unsatisfied as error:
                    failures.append(error)
                    continue
                except SourceError as error:
                    return f"{requirement}: {error.message}"
                return _changes(variant, have, {canonicalize_name(p.name): p.version for p in found}, self.facts)
        # The second one let the others follow, as of the day.
        return f"{requirement}: {failures[1].message}"

    def _first(self, name: str, platform: Platform) -> str:
        """Just after the first wheel younger than the day; empty without one."""
        try:
            files = [f for f in Listing(self.mirrors).files(name) if f.is_wheel and f.fits(platform)]
        except SourceError:
            return ""
        first = min((f.uploaded for f in files if f.uploaded > self.time), default="")
        return just_after(first) if first else ""


def _changes(variant: Variant, have: Mapping[str, str], found: Mapping[str, str], facts: Facts) -> list[RecipeChange]:
    apart = {canonicalize_name(sdist.package.partition("==")[0]) for sdist in variant.sdists}
    entries = [entry for entry in variant.wheels if isinstance(entry, str)]
    names: list[str] = [canonicalize_name(entry.partition("==")[0]) for entry in entries]
    changes = []
    for name, version in found.items():
        if name in apart or have.get(name) == version:
            continue
        if name in names:
            changes.append(RecipeChange("replace", f"/variants/*/wheels/{names.index(name)}", f"{name}=={version}"))
        elif name not in have:
            changes.append(RecipeChange("add", "/variants/*/wheels/-", f"{name}=={version}"))
        pin = name.replace("-", "_")
        if pin in variant.pins:
            changes.append(RecipeChange("replace", f"/variants/*/pins/{pin}", version))
        if name == "torch":
            block = torch_block(version, facts)
            places = [number for number, used in enumerate(variant.blocks) if used.name == "torch"]
            changes += [RecipeChange("replace", f"/variants/*/blocks/{n}", block) for n in places if block]
    return changes
