"""The schema of the facts on packages of PyPI in general: what their releases need of each other."""

from __future__ import annotations

from functools import lru_cache

from packaging.specifiers import SpecifierSet
from pydantic import Field

from reprokit.compat.package_schema import Accepts
from reprokit.compat.schema import Fact, Span, Texts


class PackageNeeds(Accepts):
    """The releases of another package that a range of releases requires, on these Pythons.

    With `later` the range itself has no such bound: the first release that has it is `later`.
    """

    python: str = ""
    later: str = ""


class PackageWheels(Span):
    """The Pythons of a range's Linux wheels, such as cp38; with `abi3` later ones too."""

    tags: Texts
    abi3: bool = False


class PackageFacts(Fact):
    """A package. `versions`: its releases, separated by blanks; none if another file of facts has them.

    `cuda`: the versions of CUDA whose libraries its wheels load.
    """

    versions: str = ""
    cuda: str = ""
    python: tuple[Accepts, ...] = ()
    wheels: tuple[PackageWheels, ...] = ()
    needs: dict[str, tuple[PackageNeeds, ...]] = Field({})


class Clash(Span):
    """Releases of `pin` that fail beside those of `other` from `other_from` on and before `other_below`.

    With `purposes` only for these values of `check --for`.
    """

    pin: str
    other: str
    other_from: str = ""
    other_below: str = ""
    purposes: Texts = ()


def meets(spec: str, version: str) -> bool:
    """Whether a release is within `spec`. A version of less than three numbers stands for all of its series."""
    accepted = _specifiers(spec)
    meant = (version,) if version.count(".") > 1 else (version, f"{version}.99")
    return any(accepted.contains(each, prereleases=True) for each in meant)


@lru_cache(maxsize=4096)
def _specifiers(spec: str) -> SpecifierSet:
    return SpecifierSet(spec)
