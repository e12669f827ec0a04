"""Packages of PyPI in general: what their releases require of each other and of Python, and which known pairs fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from reprokit.compat.known import releases
from reprokit.compat.model import CODE
from reprokit.compat.package_schema import Accepts
from reprokit.compat.requires_schema import Clash, PackageNeeds, meets
from reprokit.compat.rule import CompatRule, Problem, Verdict, combined, error, rule
from reprokit.compat.rules.python_wheels import has_wheel, no_wheel, wheel_tag
from reprokit.compat.schema import rows_for
from reprokit.compat.version import older, series
from reprokit.compat.view import View
from reprokit.recipe.pin_names import PACKAGES

# Pins that have facts elsewhere: `facts/requires` has only what they require of other packages.
_OTHERS = ("torchvision", "torchaudio", "xformers", "transformers", "tensorflow", "jax", "vllm")
_SUBJECTS = "*"  # the nearest versions are searched for the pins that a finding names


def _applies(view: View, row: PackageNeeds) -> bool:
    """Whether a requirement counts for the Python of the stack."""
    python = view.known("python")
    return not row.python or (python is not None and all(meets(row.python, v) for v in python.versions))


def _rows(view: View, name: str, version: str, other: str) -> Iterator[PackageNeeds]:
    rows = view.facts.package(name).needs.get(other, ())
    return (row for row in rows_for(rows, version) if _applies(view, row))


def _refusing(view: View, name: str, version: str, other: str, release: str) -> Iterator[PackageNeeds]:
    """The requirements that refuse `release`; without a pin of Python those of each Python that has both packages."""
    yield from (row for row in _rows(view, name, version, other) if not meets(row.spec, release))
    rows = [row for row in rows_for(view.facts.package(name).needs.get(other, ()), version) if row.python]
    if not rows or view.pin("python") is not None:
        return
    pythons = [p for p in view.facts.python.releases if _installs(view, name, version, p)]
    refusing = [
        [row for row in rows if meets(row.python, p) and not meets(row.spec, release)]
        for p in pythons
        if _installs(view, other, release, p)
    ]
    if refusing and all(refusing):
        yield refusing[-1][0]


def _installs(view: View, name: str, version: str, python: str) -> bool:
    """Whether a release has a wheel for a Python, as far as the facts say."""
    if name == "numpy":
        return wheel_tag(python) in view.facts.numpy.releases[series(version)].python
    return not any(_judge_python(view, name, version, python))


def _judge(view: View, name: str, version: str, other: str, release: str) -> Iterator[Verdict]:
    sources = view.facts.package(name).source
    for row in _refusing(view, name, version, other, release):
        if row.later:
            reason = f"{name} {version} is older than {other} {release}, and {name} {row.later} refuses it: {row.spec}"
            yield error(reason, sources)
        yield error(f"{name} {version} requires {other} {row.spec}, not {release}", sources)


def _named(name: str, suffix: str, check: Callable[[View], Iterator[Problem]]) -> CompatRule:
    return rule(f"{name.replace('_', '-')}-{suffix}", changes=_SUBJECTS, about=name)(check)


def _requires(name: str) -> CompatRule:
    """The other pins, against what the package requires of them."""

    def check(view: View) -> Iterator[Problem]:
        pin = view.known(name)
        for other in view.facts.package(name).needs if pin else ():
            side = view.known(other)
            if pin is None or side is None or (pin.from_base and side.from_base):
                continue
            verdicts = (
                (f"{name} {v} with {other} {release}", _judge(view, name, v, other, release))
                for v in pin.versions
                for release in side.versions
            )
            yield Problem((pin.label, side.label), combined(verdicts))

    return _named(name, "requires", check)


def _python(name: str) -> CompatRule:
    """The Python that a package installs on, and whether what it requires has wheels for it."""

    def check(view: View) -> Iterator[Problem]:
        pin = view.known(name)
        python = view.known("python") if pin else None
        if pin and python:
            verdicts = (
                (f"{name} {v} with Python {p}", _judge_python(view, name, v, p))
                for v in pin.versions
                for p in python.versions
            )
            yield Problem((pin.label, python.label), combined(verdicts))

    return _named(name, "python", check)


def _judge_python(view: View, name: str, version: str, python: str) -> Iterator[Verdict]:
    facts = view.facts.package(name)
    for row in rows_for(facts.python, version):
        if not meets(row.spec, python):
            yield error(f"{name} {version} requires Python {row.spec}, not {python}", facts.source)
    for wheels in rows_for(facts.wheels, version):
        if not has_wheel(wheels.tags, wheels.abi3, python):
            yield no_wheel(f"{name} {version}", wheels.tags, python, facts.source, wheels.abi3)


def _cuda(name: str) -> CompatRule:
    """The CUDA whose libraries the wheels of a package load."""

    def check(view: View) -> Iterator[Problem]:
        pin = view.known(name)
        cuda = view.known("cuda") if pin else None
        spec = view.facts.package(name).cuda
        if pin and cuda and spec:
            wrong = f"the wheels of {name} load libraries of CUDA {spec}"
            sources = view.facts.package(name).source
            verdicts = (
                (f"CUDA {c}", () if meets(spec, c) else [error(f"{wrong}, not {c}", sources)]) for c in cuda.versions
            )
            yield Problem((pin.label, cuda.label), combined(verdicts))

    return rule(f"{name.replace('_', '-')}-cuda", changes=_SUBJECTS, purposes=CODE, about=name)(check)


def _both(view: View, one: str, version: str, two: str, release: str) -> Iterator[Verdict]:
    """Whether a package that is no pin can meet what two pins require of it."""
    first, second = view.facts.package(one), view.facts.package(two)
    for dep in sorted(set(first.needs) & set(second.needs)):
        if view.pin(dep) is not None:
            continue
        mine = [row.spec for row in _rows(view, one, version, dep)]
        theirs = [row.spec for row in _rows(view, two, release, dep)]
        known = releases(view.facts, dep)
        if mine and theirs and not any(all(meets(spec, v) for spec in (*mine, *theirs)) for v in known):
            reason = f"{one} {version} requires {dep} {', '.join(mine)}, but {two} {release} {', '.join(theirs)}"
            yield error(f"{reason}: no release is within both", (*first.source, *second.source))


def _through(view: View, name: str, version: str, between: str, other: str, release: str) -> Iterator[Verdict]:
    """Whether every release of `between` that a package requires refuses this release of `other`."""
    specs = [row.spec for row in _between(view, name, version, between)]
    within = [v for v in releases(view.facts, between) if specs and all(meets(spec, v) for spec in specs)]
    refusals = [[row for row in _rows(view, between, v, other) if not meets(row.spec, release)] for v in within]
    if refusals and all(refusals):
        found = f"{name} {version} requires {between} {', '.join(specs)}, and {between} {within[-1]} {other}"
        sources = (*view.facts.package(name).source, *view.facts.package(between).source)
        yield error(f"{found} {refusals[-1][0].spec}, not {release}", sources)


def _between(view: View, name: str, version: str, between: str) -> Iterator[Accepts]:
    if (name, between) == ("transformers", "tokenizers"):
        return rows_for(view.facts.transformers.accepts, version)
    return _rows(view, name, version, between)


@rule("requires-through", changes=_SUBJECTS)
def through(view: View) -> Iterator[Problem]:
    """A package with a pin that only what it requires refuses."""
    for name in (name for name in (*PACKAGES, *_OTHERS) if view.known(name)):
        needs = (*view.facts.package(name).needs, *(("tokenizers",) if name == "transformers" else ()))
        for between in (each for each in needs if view.pin(each) is None):
            for other in view.facts.package(between).needs:
                pin, side = view.known(name), view.known(other)
                if pin and side and other != name:
                    verdicts = (
                        (f"{name} {v} with {other} {w}", _through(view, name, v, between, other, w))
                        for v in pin.versions[-5:]
                        for w in side.versions[-5:]
                    )
                    yield Problem((pin.label, side.label), combined(verdicts))


@rule("requires-together", changes=_SUBJECTS)
def together(view: View) -> Iterator[Problem]:
    """Two packages that require different releases of a third."""
    names = [name for name in (*PACKAGES, *_OTHERS) if view.known(name)]
    for one, two in combinations(names, 2):
        left, right = view.known(one), view.known(two)
        if left and right and set(view.facts.package(one).needs) & set(view.facts.package(two).needs):
            verdicts = (
                (f"{one} {v} with {two} {w}", _both(view, one, v, two, w))
                for v in left.versions[-5:]
                for w in right.versions[-5:]
            )
            yield Problem((left.label, right.label), combined(verdicts))


@rule("known-clash", changes=_SUBJECTS)
def clash(view: View) -> Iterator[Problem]:
    """Pairs that pip installs together, and that fail."""
    for row in view.facts.clashes:
        pin = view.known(row.pin)
        side = view.known(row.other) if pin else None
        if pin is None or side is None or (row.purposes and view.stack.purpose not in row.purposes):
            continue
        failing = [error(row.text, row.source)]
        verdicts = (
            (f"{row.pin} {v} with {row.other} {w}", failing if row.covers(v) and _within(row, w) else ())
            for v in pin.versions
            for w in side.versions
        )
        yield Problem((pin.label, side.label), combined(verdicts))


def _within(row: Clash, version: str) -> bool:
    return not older(version, row.other_from) and (not row.other_below or older(version, row.other_below))


globals().update({f"{name}_requires": _requires(name) for name in (*PACKAGES, *_OTHERS)})
globals().update({f"{name}_python": _python(name) for name in PACKAGES})
globals().update({f"{name}_cuda": _cuda(name) for name in PACKAGES if name.startswith("cupy")})
