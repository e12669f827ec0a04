"""Choose the Python, and the distribution that has it."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from reprokit.compat.facts import Facts
from reprokit.compat.rules.wheels import has_wheel
from reprokit.compat.schema import NumpyRelease, TorchRelease, WheelRelease, meets, rows_for
from reprokit.compat.version import key, key_or_zero
from reprokit.errors import UsageError
from reprokit.importing.decision import Choice, Overruled, PythonBase
from reprokit.importing.merge import exact as exact_version
from reprokit.importing.model import Statement
from reprokit.importing.projects import METADATA, project_folder
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.system_choice import kernels_of, minima, unmet
from reprokit.recipe.pin_names import PACKAGES

_PATCH = re.compile(r"(==\s*3\.[0-9]+)\.[0-9]+(?:\.\*)?(?![0-9.])")
_SERIES = re.compile(r"==\s*3\.([0-9]{1,2})(?![0-9])")
_MINOR = re.compile(r"3\.[0-9]{1,2}")
# Files whose exact versions of compiled packages have wheels for some Pythons only.
_PINNING = (*METADATA, "pipfile", "environment", "requirements", "dockerfile")
# Files whose version of a package counts if they name only one version, and the other files name none.
_TELLING = ("devcontainer", "script", "readme")
_MOST_EXACT = 20
_FRAMEWORKS = ("torch", "tensorflow")  # code for one major version of them does not run with the next
# Metadata excludes Pythons. These files name the one that the authors used, the most reliable first.
_WISHES = ("dockerfile", "pipfile", "environment", "requirements", "repo2docker", "devcontainer", "script", "readme")


def candidates(statements: Sequence[Statement], facts: Facts, day: date) -> list[tuple[PythonBase, Choice]]:
    """The available Pythons of distributions that the metadata allows, the best first.

    Debian's come first: its archive needs no registry. Raises UsageError if the metadata allows none.
    """
    stated = [s for s in statements if s.subject == "python" and s.scope == "run"]
    folder = project_folder(statements)  # others' metadata is not for this project
    bounds = [s for s in stated if s.format in METADATA and s.origin.file.rpartition("/")[0] == folder]
    wishes = sorted((s for s in stated if s.format in _WISHES), key=lambda s: _WISHES.index(s.format))
    tested = [s for s in statements if s.subject == "tested" and _MINOR.fullmatch(s.value)]
    needed = [s for s in statements if s.subject == "package" and s.scope == "run"]
    pinned = [s for s in needed if s.format in _PINNING]
    bounded = {_pin_of(s) for s in pinned if (named := valid_requirement(s.value)) and named.specifier}
    hints = {pin: s for s in needed if s.format in _TELLING if (pin := _exact(s, facts)) and pin[0] not in bounded}
    pinned += [s for pin, s in hints.items() if sum(name == pin[0] for name, _ in hints) == 1]  # others are a choice
    exact = list(dict.fromkeys(pin for s in pinned if (pin := _exact(s, facts))))[:_MOST_EXACT]
    minors = [series[1] for s in wishes if (series := _SERIES.match(s.value))]
    near = next((int(minor) for minor in minors if all(_meets(f"3.{minor}", s.value) for s in bounds)), 0)
    patched = {base: facts.distros.distros[base.distro].python for base in _available(facts)}
    within = [base for base in patched if all(_meets(patched[base], s.value) for s in bounds)]
    lacking = {base: reason for base in within if (reason := _lacking(base, pinned, facts))}
    kernels = kernels_of(statements)
    able = [b for b in within if b not in lacking and (not kernels or facts.distros.distros[b.distro].cuda_package)]
    for bases in (able, within):
        for family in ("debian:", "ubuntu:"):
            allowed = [base for base in bases if base.distro.startswith(family)]
            if not allowed:
                continue
            ranked = sorted(allowed, key=lambda base: _rank(base, wishes, near, tested, exact, facts, day))
            explained = [(base, _explained(base, bounds, wishes, tested, facts, day)) for base in ranked]
            if family == "ubuntu:":
                debian = tuple(
                    reason for base, reason in sorted(lacking.items(), key=str) if base.distro.startswith("debian:")
                )
                explained = [(base, replace(choice, lost=choice.lost + debian[:1])) for base, choice in explained]
            return _that_build(explained, minima(statements), facts)
    stated_bounds = list(dict.fromkeys(repr(s.value) for s in bounds))
    pythons = ", ".join(sorted({base.python for base in _available(facts)}, key=lambda v: int(v.split(".")[1])))
    raise UsageError(
        f"no distribution has a Python that fits {' and '.join(stated_bounds)}",
        ", ".join(dict.fromkeys(str(s.origin) for s in bounds)),
        f"Debian and Ubuntu have {pythons}; a commit with a wider range may fit, see --commit",
    )


def _lacking(base: PythonBase, pinned: Sequence[Statement], facts: Facts) -> Overruled | None:
    """A required framework without a wheel for this Python in any release of the required major versions."""
    for statement in pinned:
        requirement, name = valid_requirement(statement.value), _pin_of(statement)
        if requirement is None or name not in _FRAMEWORKS:
            continue
        specifier, releases = requirement.specifier, _releases(name, facts)
        exact = exact_version(specifier)
        majors = {exact.major} if exact else {key(release)[0] for release in releases if specifier.contains(release)}
        like = [release for release in releases if key(release)[0] in majors]
        if like and not any(_fits(name, release, base.python, facts) for release in like):
            why = f"no release of the major version of {statement.value} has a wheel for its Python {base.python}"
            return Overruled(base.distro, statement.origin, why)
    return None


def _that_build(
    ranked: list[tuple[PythonBase, Choice]], required: Sequence[Statement], facts: Facts
) -> list[tuple[PythonBase, Choice]]:
    """Sort the Pythons by how many of the build's requirements their distributions miss; ties keep their order."""
    missing = {base: unmet(base, required, facts) for base, _ in ranked}
    first = ranked[0][0]
    why = f"{first.distro} would fit better, and lacks what the build requires"
    lost = tuple(Overruled(first.distro, o.origin, f"{o.value} is required, and {o.why}") for o in missing[first])
    explained = [
        (base, replace(choice, why=why, lost=choice.lost + lost) if len(missing[base]) < len(lost) else choice)
        for base, choice in ranked
    ]
    return sorted(explained, key=lambda pair: len(missing[pair[0]]))


def _available(facts: Facts) -> list[PythonBase]:
    """The distributions with a release date whose archive still serves them."""
    dated = facts.released.distro
    return [
        PythonBase(name, ".".join(distro.python.split(".")[:2]))
        for name, distro in facts.distros.distros.items()
        if name in dated and (distro.python_available or (name.startswith("ubuntu:") and name != "ubuntu:16.04"))
    ]


def _meets(python: str, specifier: str) -> bool:
    """Whether a Python is within a specifier. Without a patch release, an early and a late one are tried."""
    try:
        required = SpecifierSet(specifier)
    except InvalidSpecifier:
        return True
    return any(map(required.contains, [python] if python.count(".") > 1 else [f"{python}.2", f"{python}.20"]))


def _grants(python: str, wish: str) -> bool:
    """Whether a file names this Python: only the 3.9 of `==3.9.7` counts."""
    return _meets(python, _PATCH.sub(r"\1.*", wish))


def _pin_of(statement: Statement) -> str:
    """The pin that a requirement is for, such as `tensorflow`; empty if it is not a requirement."""
    requirement = valid_requirement(statement.value)
    return requirement.name.lower().replace("tensorflow-gpu", "tensorflow").replace("-", "_") if requirement else ""


def _exact(statement: Statement, facts: Facts) -> tuple[str, str] | None:
    """The pin and the version of `torch==1.7.1+cu110`; None for ranges, and for packages without facts."""
    requirement, name = valid_requirement(statement.value), _pin_of(statement)
    version = exact_version(requirement.specifier) if requirement and _releases(name, facts) else None
    return (name, ".".join(map(str, version.release))) if version else None


def _table(name: str, facts: Facts) -> Mapping[str, TorchRelease | NumpyRelease | WheelRelease]:
    if name == "torch":
        return facts.torch.releases
    if name == "numpy":
        return facts.numpy.releases
    return facts.wheels[name].releases if name in facts.wheels else {}


def _releases(name: str, facts: Facts) -> list[str]:
    """The releases of a pin whose Pythons are in the facts, oldest first."""
    releases = [version for version, release in _table(name, facts).items() if release.python]
    return sorted(releases or (facts.package(name).versions.split() if name in PACKAGES else ()), key=key)


def _fits(name: str, version: str, python: str, facts: Facts) -> bool:
    """Whether pip installs a release on a Python, from a wheel if there are wheels for others."""
    if table := _table(name, facts):
        return has_wheel(table[version].python, getattr(table[version], "abi3", False), python)
    package = facts.package(name)
    return all(meets(row.spec, python) for row in rows_for(package.python, version)) and all(
        has_wheel(row.tags, row.abi3, python) for row in rows_for(package.wheels, version)
    )


def _steps(python: str, name: str, version: str, facts: Facts) -> int:
    """The distance, in releases, from a version to the nearest one that fits a Python."""
    releases = _releases(name, facts)
    closest = max(bisect(releases, key_or_zero(version), key=key) - 1, 0)
    for steps in range(len(releases)):
        near = [releases[place] for place in {closest - steps, closest + steps} if 0 <= place < len(releases)]
        if any(_fits(name, release, python, facts) for release in near):
            return steps
    return len(releases)


def _rank(
    base: PythonBase,
    wishes: Sequence[Statement],
    near: int,
    tested: Sequence[Statement],
    exact: Sequence[tuple[str, str]],
    facts: Facts,
    day: date,
) -> tuple[object, ...]:
    minor = int(base.python.split(".")[1])
    minors = [int(s.value.split(".")[1]) for s in tested]
    away = min((abs(minor - other) for other in minors), default=0)
    released = date.fromisoformat(facts.released.distro[base.distro])
    # The stable release of the day, then older ones, then the first of the later ones.
    late = released > day
    return (
        [not _grants(base.python, s.value) for s in wishes],
        abs(minor - near) if near else 0,
        away,
        sum(_steps(base.python, *pin, facts) for pin in exact),
        late,
        abs((day - released).days),
    )


def _explained(
    base: PythonBase,
    bounds: Sequence[Statement],
    wishes: Sequence[Statement],
    tested: Sequence[Statement],
    facts: Facts,
    day: date,
) -> Choice:
    met = [*bounds, *(s for s in wishes if _grants(base.python, s.value))]
    first = {s.value: s for s in reversed(wishes) if not _grants(base.python, s.value)}
    lost = [Overruled(f"Python {s.value}", s.origin, _why_not(s, base, facts)) for s in reversed(first.values())]
    if tested and base.python not in {s.value for s in tested}:
        newest = max(tested, key=lambda s: int(s.value.split(".")[1]))
        lost.append(Overruled(f"Python {newest.value}", newest.origin, _why_not(newest, base, facts)))
    stable = facts.released.newest(
        {name: day for name, day in facts.released.distro.items() if name.startswith("debian:")}, day.isoformat()
    )
    if not stable:
        why = f"{base.distro} is the oldest that can be had"
    elif stable == base.distro:
        why = f"{base.distro} was stable on {day}"
    elif stable not in {other.distro for other in _available(facts)}:
        why = f"{stable} was stable on {day}, and its archive is gone; {base.distro} is the nearest that can be had"
    else:
        why = f"{stable} was stable on {day}, and the Python of {base.distro} fits better"
    origins = tuple(dict.fromkeys(s.origin for s in met))[:3]
    return Choice(f"{base.distro} with Python {base.python}", origins, why, tuple(dict.fromkeys(lost)))


def _why_not(statement: Statement, base: PythonBase, facts: Facts) -> str:
    have = {other.python: other.distro for other in reversed(_available(facts))}
    number = _PATCH.sub(r"\1", statement.value).lstrip("=~").removesuffix(".*")
    if number in have:
        return f"only {have[number]} has it"
    return f"no distribution here has it; {base.python} is the nearest"
