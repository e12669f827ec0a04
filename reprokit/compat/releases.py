"""The releases of each pin in the facts, the versions to offer instead, and the builds of torch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from reprokit.compat.facts import Facts
from reprokit.compat.version import begins, key, key_or_zero, matching, parts, public, series
from reprokit.recipe.pin_names import PACKAGES


def releases(facts: Facts, name: str) -> tuple[str, ...]:
    """Every release of a pin that the facts name, oldest first; () for pins without versions (distro, base)."""
    return facts.derived(f"releases of {name}", lambda f: tuple(sorted(dict.fromkeys(_versions(f, name)), key=key)))


def _versions(facts: Facts, name: str) -> Iterable[str]:
    if name in ("distro", "base"):
        return ()
    if name in ("cuda", "cudnn", "dgl"):
        return {"cuda": _cuda, "cudnn": _cudnn, "dgl": _dgl}[name](facts)
    if name == "clang":
        return facts.gcc.clang
    if name in facts.wheels:
        return facts.wheels[name].releases
    if name in PACKAGES:
        return facts.package(name).versions.split()
    table = getattr(facts, name)
    versions: Iterable[str] = table.versions if name in ("cutlass", "flash_attn", "transformers") else table.releases
    return versions


def matching_releases(facts: Facts, name: str, pin: str) -> tuple[str, ...]:
    """The releases that a pin stands for; () if no fact knows it."""
    return facts.derived(f"{name}={pin}", lambda f: _matching(f, name, pin))


def _matching(facts: Facts, name: str, pin: str) -> tuple[str, ...]:
    if name == "distro":
        canonical = distro(facts, pin)
        return (canonical,) if canonical else ()
    listed = releases(facts, name)
    if (name in facts.wheels or name in PACKAGES) and public(pin) in listed:
        return (public(pin),)  # not its post-releases, which are made for other torch
    if name == "gcc" and re.fullmatch(r"([5-9]|\d\d)(\.0)+", pin):
        pin = series(pin, 1)  # gcc 9.0 means 9: the first release is 9.1
    matches = matching(pin, listed)
    if name == "gcc" and pin == series(pin, 1):
        matches = _carried(facts, matches)
    if name in facts.wheels:
        return tuple(v for v in matches if v in listed)
    # The facts on these are by release, and have none on 1.13.1.post1.
    if matches and (matches[0] in listed or name not in ("torch", "torchvision", "tvm")):
        return matches
    text = public(pin)
    if name == "cudnn" and key_or_zero(text) and 5 <= key(text)[0] <= 9:
        return (text,)
    if name == "flash_attn" and key_or_zero(text) and any(s.covers(text) for s in facts.flash_attn.series):
        return (text,)
    if name == "dgl" and "post" in text:
        return matching(text.partition("post")[0].rstrip("."), releases(facts, name))
    return _of_series(facts, name, text)


def _carried(facts: Facts, gccs: tuple[str, ...]) -> tuple[str, ...]:
    """The releases that a distribution has, and newer ones: gcc 11 is at least 11.4, since no distribution has 11.1."""
    has = [d.gcc for d in facts.distros.distros.values() if parts(d.gcc) and d.gcc != series(d.gcc, 1)]
    oldest = min((series(v) for v in has if series(v) in gccs), key=key, default="0")
    return tuple(v for v in gccs if key(v) >= key(oldest))


def _of_series(facts: Facts, name: str, text: str) -> tuple[str, ...]:
    """For a release without facts: the one before it in its series, else the one after it."""
    same = [v for v in releases(facts, name) if series(v) == series(text)] if parts(text) else []
    return (max((v for v in same if key(v) < key(text)), key=key, default=same[0]),) if same else ()


def suggestions(facts: Facts, name: str) -> tuple[str, ...]:
    """Versions to offer instead of a pin, oldest first: minors of CUDA and cuDNN, majors of gcc, else releases."""
    versions = releases(facts, name)
    if name in ("cuda", "cudnn"):
        versions = tuple(dict.fromkeys(series(v, 2) for v in versions))
    elif name == "gcc":
        versions = tuple(dict.fromkeys(v if key(v)[0] < 5 else series(v, 1) for v in versions))
    elif name == "dgl":
        versions = tuple(v for v in versions if v in facts.dgl.pypi_cpu.releases)
    return versions


def distro(facts: Facts, text: str) -> str | None:
    """`debian:11` for `debian:bullseye`, `debian:11.9`, `bullseye`, `debian11`; None if the facts lack it."""
    family, _, release = text.lower().strip().partition(":")
    distros = facts.distros.distros
    spellings = [(name, *spelling.partition(":")[::2]) for name in distros for spelling in (name, *distros[name].also)]
    if not release:
        prefix = next((f for _, f, _ in spellings if family.startswith(f)), "")
        family, release = prefix, family[len(prefix) :].lstrip("-_ ")
    for name, known_family, known_release in spellings:
        if not release or family not in ("", known_family):
            continue
        if release in (known_release, distros[name].codename):
            return name
        if family and release.startswith(known_release + "."):
            return name
    return None


def _cuda(facts: Facts) -> list[str]:
    listed = list(facts.images.nvidia_cuda.listed)
    versions: list[str] = []
    for minor, toolkit in facts.cuda.toolkits.items():
        named = [*toolkit.driver_by_release, *(v for v in listed if begins(minor, v))]
        versions += named or [minor]
    return versions


def _cudnn(facts: Facts) -> list[str]:
    versions = [p.cudnn for p in (*facts.cudnn.in_nvidia_images.pairs, *facts.cudnn.debian)]
    versions += [end for p in facts.cudnn.pypi for end in (p.first, p.last)]
    for release in facts.torch.releases.values():
        for version in release.cudnn.values():
            versions += [version] if isinstance(version, str) else version
    return versions


def _dgl(facts: Facts) -> list[str]:
    elsewhere = [release for wheels in facts.dgl.pypi_cuda.values() for release in wheels]
    return [*facts.dgl.pypi_cpu.releases, *facts.dgl.not_on_pypi.releases, *elsewhere]


@dataclass(frozen=True)
class TorchWheel:
    """One release in one build. `cuda` is "" for a CPU build; `sm` and `conda_sm` are None if unknown.

    `uncertain`: the CUDA of the build is not verified. `verified`: its capabilities are.
    """

    version: str
    build: str
    cuda: str
    sm: tuple[int, ...] | None
    ptx: tuple[int, ...]
    verified: bool
    uncertain: bool
    conda_sm: tuple[int, ...] | None
    sources: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"torch {self.version} ({'CPU build' if not self.cuda else 'CUDA ' + self.cuda})"


def torch_wheel(facts: Facts, version: str, build: str) -> TorchWheel:
    release = facts.torch.releases[version]
    doubts = set(release.unverified)
    if build and not build.startswith("cu"):
        return TorchWheel(version, build, "", (), (), True, False, None, release.source)
    uncertain = not build and bool(doubts & {"default", "all"})
    cuda = cuda_of_build(build) if build else release.default
    build = build or build_of_cuda(cuda)
    verified = not doubts & {"sm", "all", f"sm:{build}"}
    sm, ptx, conda = release.sm.get(build), release.ptx.get(build, ()), release.conda_sm.get(build)
    return TorchWheel(version, build, cuda, sm, ptx, verified, uncertain, conda, release.source)


def assumed_build(facts: Facts, version: str, cudas: Iterable[str]) -> str:
    """The build of a torch pin without one beside a CUDA: that of its minor, else the newest older one of its major.

    "" is the wheel on PyPI.
    """
    release = facts.torch.releases[version]
    minors = sorted(set(map(series, cudas)), key=key)
    majors = {series(minor, 1) for minor in minors}
    if release.default in minors:
        return ""
    exact = [build for build in release.builds if build in minors]
    older = [b for b in release.builds if series(b, 1) in majors and key(b) < key(minors[-1])]
    if not exact and series(release.default, 1) in majors:
        return ""
    cuda = max(exact or older, key=key, default="")
    return build_of_cuda(cuda) if cuda else ""


def cuda_of_build(build: str) -> str:
    """`11.1` of `cu111`, `9.2` of `cu92`; "" for another build."""
    digits = build.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}" if digits.isdigit() and len(digits) > 1 else ""


def build_of_cuda(cuda: str) -> str:
    """`cu111` of `11.1`."""
    return "cu" + cuda.replace(".", "")
