"""Wheels with Python, with each other, and with the distribution's C library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations

from packaging.specifiers import SpecifierSet

from reprokit.compat.model import CODE
from reprokit.compat.releases import cuda_of_build, releases, torch_wheel
from reprokit.compat.rule import (
    CompatRule,
    Problem,
    Verdict,
    combination_rule,
    combination_rules,
    error,
    info,
    needs,
    problems,
    rule,
    unknown,
    warning,
)
from reprokit.compat.schema import Accepts, AffectedPin, Clash, Needs, PackageNeeds, WheelRelease, meets, rows_for
from reprokit.compat.version import at_most, key, older, public, series
from reprokit.compat.view import View
from reprokit.recipe.pin_names import PACKAGES


def wheel_tag(python: str) -> str:
    """`cp38` of `3.8.10`."""
    return "cp" + series(python).replace(".", "")


def has_wheel(tags: Sequence[str], abi3: bool, python: str) -> bool:
    """Whether one of the wheels with these tags, such as cp38, loads in a Python; with `abi3` later ones do."""
    tag = wheel_tag(python)
    return tag in tags or (abi3 and int(tag[3:]) > int(tags[0][3:]))


def no_wheel(what: str, tags: Iterable[str], python: str, sources: Iterable[str], later: bool = False) -> Verdict:
    """The error that no wheel with these tags, such as cp38, fits; it omits free-threaded tags."""
    has = ", ".join(f"{t[2]}.{t[3:]}" for t in tags if t.startswith("cp") and not t.endswith("t"))
    return error(f"{what} has wheels for Python {has}{' and later' if later else ''}, not {series(python)}", sources)


def _both_from_base(view: View, name: str, other: str) -> bool:
    return all(pin is not None and pin.from_base for pin in (view.pin(name), view.pin(other)))


def _one_build(view: View, name: str, sources: Iterable[str]) -> Iterator[Verdict]:
    """A package and torch whose pins name different builds."""
    builds = [pin.local for pin in (view.pin(name), view.pin("torch")) if pin and pin.local]
    if len(set(builds)) > 1:
        reason = f"{name}'s build is {builds[0]}, but torch's is {builds[1]}; pin the same build of both"
        yield error(reason, sources)


@combination_rule("torch-python", of="torch python")
def torch_python(view: View, version: str, python: str) -> Iterator[Verdict]:
    release, documented = view.facts.torch.releases[version], view.facts.torch_build.python_support
    if _both_from_base(view, "torch", "python"):
        return
    if wheel_tag(python) not in release.python:
        yield no_wheel(f"torch {version}", release.python, python, release.source)
    for row in documented.ranges:
        if row.covers(version) and row.python_max and not at_most(python, row.python_max):
            reason = f"torch {version} has wheels for Python {series(python)}, but documents it up to {row.python_max}"
            yield info(reason, documented.source)


@combination_rule("torchvision-torch", of="torchvision torch")
def torchvision_torch(view: View, version: str, torch: str) -> Iterator[Verdict]:
    table = view.facts.torchvision
    row, vision_pin, torch_pin = table.releases[version], view.pin("torchvision"), view.pin("torch")
    belongs = [minor for minor in row.torch_series or () if minor]
    if not belongs:
        yield unknown(f"no fact says which torch torchvision {version} belongs to", table.source)
    if series(torch) not in belongs:
        yield error(f"torchvision {version} belongs to torch {' or '.join(belongs)}, not {torch}", table.source)
    yield from _one_build(view, "torchvision", table.source)
    if torch_pin and torch_pin.local.startswith("cpu") and vision_pin and not vision_pin.local:
        reason = f"the wheel of torchvision {version} on PyPI is for CUDA: its operators do not load with a CPU torch"
        yield error(f"{reason}; take it from the index of torch, as torchvision={version}+cpu", ("tt_forge_890",))
    if row.torch and key(row.torch) != key(public(torch)):
        yield error(f"the wheel of torchvision {version} requires torch {row.torch}, not {torch}", ("pypi_meta",))


@combination_rule("torchvision-python", of="torchvision python")
def torchvision_python(view: View, version: str, python: str) -> Iterator[Verdict]:
    tags = view.facts.torchvision.releases[version].python
    if wheel_tag(python) in tags or _both_from_base(view, "torchvision", "python"):
        return
    yield no_wheel(f"torchvision {version}", tags, python, view.facts.torchvision.source)


@combination_rule("numpy-python", of="numpy python")
def numpy_python(view: View, version: str, python: str) -> Iterator[Verdict]:
    table, minor = view.facts.numpy, series(version)
    release = table.releases[minor]
    first = release.first_patch.get(wheel_tag(python))
    if wheel_tag(python) not in release.python:
        yield no_wheel(f"numpy {minor}", release.python, python, table.source)
    if version != minor and older(version, first):
        missing = f"numpy {version} has no wheel for Python {series(python)}"
        yield warning(f"{missing}: pip compiles it, if it can; pin numpy {first}", table.source)


@combination_rule("transformers-python", of="transformers python")
def transformers_python(view: View, version: str, python: str) -> Iterator[Verdict]:
    """The Pythons of a release, and of the tokenizers that it accepts, a compiled package."""
    for row in rows_for(view.facts.transformers.python, version):
        yield from needs(f"transformers {version}", "Python", row.python_min, python, row.source)
    for accepted in rows_for(view.facts.transformers.accepts, version):
        if not _has_wheel(view, "tokenizers", accepted.spec, python):
            needed = f"transformers {version} needs tokenizers {accepted.spec}"
            reason = f"{needed}, which has no wheel for Python {series(python)}: pip would compile it with Rust"
            yield error(reason, (*accepted.source, *view.facts.wheels["tokenizers"].source))


@combination_rule("transformers-torch", of="transformers torch")
def transformers_torch(view: View, version: str, torch: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.transformers.torch, version):
        yield from needs(f"transformers {version}", "torch", row.torch_min, torch, row.source)


@combination_rule("transformers-tokenizers", of="transformers tokenizers")
def transformers_tokenizers(view: View, version: str, release: str) -> Iterator[Verdict]:
    """transformers compares the version of tokenizers when it is imported."""
    for row in rows_for(view.facts.transformers.accepts, version):
        if not SpecifierSet(row.spec).contains(release, prereleases=True):
            yield error(f"transformers {version} requires tokenizers {row.spec}, not {release}", row.source)


_COMPILED = ("tokenizers", "torchaudio", "xformers", "tensorflow", "jax", "jaxlib", "triton", "torchtext", "vllm")


@combination_rules("{}-python", of="{} python", each=_COMPILED)
def wheels_python(view: View, name: str, version: str, python: str) -> Iterator[Verdict]:
    """A package of compiled wheels with Python."""
    release, sources = view.facts.wheels[name].releases[version], view.facts.wheels[name].source
    if not _fits(release, python):
        yield no_wheel(f"{name} {version}", release.python, python, sources, release.abi3)
    for other, spec in release.requires.items():
        if other in view.facts.wheels and not _has_wheel(view, other, spec, python):
            reason = f"{name} {version} needs {other} {spec}, which has no wheel for Python {series(python)}"
            yield error(reason, sources)


@combination_rules("{}-torch", of="{} torch", each=("torchaudio", "xformers", "torchtext", "vllm"))
def wheels_torch(view: View, name: str, version: str, torch: str) -> Iterator[Verdict]:
    """A package of wheels that are made for one torch."""
    release, sources = view.facts.wheels[name].releases[version], view.facts.wheels[name].source
    if release.torch and not SpecifierSet(release.torch).contains(torch):
        reason = f"the wheel of {name} {version} requires torch {release.torch.removeprefix('==')}, not {torch}"
        if torch in release.runs:
            yield warning(f"{reason}: it runs, but pip installs it only with --no-deps", sources)
        yield error(reason, sources)
    yield from _one_build(view, name, sources)
    yield from _one_major(view, name, version, sources)


def _one_major(view: View, name: str, version: str, sources: Iterable[str]) -> Iterator[Verdict]:
    """A wheel on PyPI for another CUDA than that of torch's build."""
    pin, torch, cudas = view.pin(name), view.pin("torch"), view.facts.wheels[name].releases[version].cuda
    if not cudas or pin is None or pin.local or torch is None or not torch.local:
        return
    cuda = cuda_of_build(torch.local)
    if not cuda or series(cuda, 1) not in {series(v, 1) for v in cudas}:
        reason = f"the wheel of {name} {version} on PyPI is for CUDA {' and '.join(cudas)}: its kernels do not load"
        yield error(f"{reason} with torch's build {torch.local}; pin the build of {name} for it", sources)


_REQUIRED = (
    ("jax", "jaxlib"), ("jax", "numpy"), ("tensorflow", "numpy"), ("vllm", "transformers"), ("vllm", "xformers"),
)  # fmt: skip


@combination_rules("{}-{}", of="{} {}", each=_REQUIRED)
def required(view: View, name: str, other: str, version: str, release: str) -> Iterator[Verdict]:
    """A package with a pin whose releases it bounds."""
    spec = view.facts.wheels[name].releases[version].requires.get(other, "")
    # The facts know minors of NumPy, each with its patches.
    meant = (release, f"{release}.99") if other == "numpy" and release == series(release) else (release,)
    if not any(SpecifierSet(spec).contains(v, prereleases=True) for v in meant):
        yield error(f"{name} {version} requires {other} {spec}, not {release}", view.facts.wheels[name].source)


@combination_rule("torch-triton", of="torch triton")
def torch_triton(view: View, version: str, release: str) -> Iterator[Verdict]:
    """The triton that torch's wheel for CUDA requires, one release."""
    torch = view.pin("torch")
    for row in rows_for(view.facts.torch_build.triton, version):
        if key(row.triton) == key(release) or torch is None or torch.local.startswith("cpu"):
            continue
        reason = f"torch {version} requires triton {row.triton}, not {release}"
        if release in row.runs:
            yield warning(f"{reason}: it runs, but pip installs it only by a command of its own", row.source)
        yield error(reason, row.source)


def _has_wheel(view: View, name: str, spec: str, python: str) -> bool:
    """Whether one of the releases within `spec` has a wheel for a Python."""
    releases, within = view.facts.wheels[name].releases, SpecifierSet(spec)
    return any(_fits(r, python) for v, r in releases.items() if within.contains(v, prereleases=True))


def _fits(release: WheelRelease, python: str) -> bool:
    """Whether a release has a wheel for a Python, or the facts do not say."""
    return not release.python or has_wheel(release.python, release.abi3, python)


@rule("numpy-projects", changes="numpy tvm torch")
def numpy_projects(view: View) -> Iterator[Problem]:
    """Projects that use removed parts of NumPy, or were built for its older ABI."""
    for row in view.facts.numpy.projects if view.known_pin("numpy") else ():

        def judge(_: View, version: str, numpy: str, row: AffectedPin = row) -> Iterator[Verdict]:
            if row.covers(version) and not older(numpy, row.numpy_below):
                yield error(f"{row.text}; pin numpy below {row.numpy_below}", row.source)

        yield from problems(view, (row.pin, "numpy"), judge)


@rule("wheel-glibc", changes="torch torchvision torchaudio dgl tvm tensorflow jaxlib triton vllm bitsandbytes distro")
def glibc(view: View) -> Iterator[Problem]:
    """The C library that a wheel's tag requires, against the distribution's."""
    for name in ("torch", "dgl", "tvm", *view.facts.glibc) if view.known_pin("distro") else ():
        pin = view.known_pin(name)
        if pin and not pin.from_base:
            yield from problems(view, (name, "distro"), partial(_judge_glibc, name))


def _judge_glibc(name: str, view: View, version: str, distro: str) -> Iterator[Verdict]:
    least, sources = _glibc_of_wheel(view, name, version)
    has = view.distro(distro)
    if not least or key(has.glibc) >= key(least):
        return
    reason = f"the wheel of {name} {version} needs glibc {least} or later, but {distro} has {has.glibc}"
    yield error(reason, (*sources, *has.source))


def _glibc_of_wheel(view: View, name: str, version: str) -> tuple[str, tuple[str, ...]]:
    facts = view.facts
    rows: Iterator[Needs]
    if name == "tvm":
        return (facts.tvm.pypi.glibc, facts.tvm.pypi.source) if facts.tvm.releases[version].wheel else ("", ())
    if name == "torch":
        build = torch_wheel(facts, version, view.torch_build(version)).build
        rows = (row for row in rows_for(facts.torch_build.glibc, version) if not row.builds or build in row.builds)
    else:
        rows = rows_for(facts.dgl.glibc if name == "dgl" else facts.glibc[name], version)
    return next(((row.glibc, row.source) for row in rows), ("", ()))


# Pins with own facts: `facts/requires` has only their requirements of other packages.
_OTHERS = ("torchvision", "torchaudio", "xformers", "transformers", "tensorflow", "jax", "vllm")
_NEWEST = 5  # releases of a pin that stands for more
_SUBJECTS = "*"  # offer other versions of the pins that a finding names


def _applies(view: View, row: PackageNeeds) -> bool:
    """Whether a requirement counts for the Python of the stack."""
    python = view.known_pin("python")
    return not row.python or (python is not None and all(meets(row.python, v) for v in python.versions))


def _rows(view: View, name: str, version: str, other: str) -> Iterator[PackageNeeds]:
    rows = view.facts.package(name).needs.get(other, ())
    return (row for row in rows_for(rows, version) if _applies(view, row))


def _refusing(view: View, name: str, version: str, other: str, release: str) -> Iterator[PackageNeeds]:
    """The requirements that refuse `release`; without a Python pin, of all Pythons that have both packages."""
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
    """Whether a release has a wheel for a Python, according to the facts."""
    if name == "numpy":
        return wheel_tag(python) in view.facts.numpy.releases[series(version)].python
    return not any(_judge_python(view, name, version, python))


def _judge(name: str, other: str, view: View, version: str, release: str) -> Iterator[Verdict]:
    sources = view.facts.package(name).source
    for row in _refusing(view, name, version, other, release):
        if row.later:
            reason = f"{name} {version} is older than {other} {release}, and {name} {row.later} refuses it: {row.spec}"
            yield error(reason, sources)
        yield error(f"{name} {version} requires {other} {row.spec}, not {release}", sources)


def _requires(name: str) -> CompatRule:
    """The requirements of a package, against the other pins."""

    @rule(f"{name.replace('_', '-')}-requires", changes=_SUBJECTS, about=name)
    def check(view: View) -> Iterator[Problem]:
        pin = view.known_pin(name)
        for other in view.facts.package(name).needs if pin else ():
            side = view.known_pin(other)
            if pin and side and not (pin.from_base and side.from_base):
                yield from problems(view, (name, other), partial(_judge, name, other))

    return check


requires = tuple(map(_requires, (*PACKAGES, *_OTHERS)))


def _judge_python(view: View, name: str, version: str, python: str) -> Iterator[Verdict]:
    """The Python that a package installs on, and whether it has wheels for it."""
    facts = view.facts.package(name)
    for row in rows_for(facts.python, version):
        if not meets(row.spec, python):
            yield error(f"{name} {version} requires Python {row.spec}, not {python}", facts.source)
    for wheels in rows_for(facts.wheels, version):
        if not has_wheel(wheels.tags, wheels.abi3, python):
            yield no_wheel(f"{name} {version}", wheels.tags, python, facts.source, wheels.abi3)


package_python = combination_rules("{}-python", of="{} python", each=PACKAGES, changes=_SUBJECTS)(_judge_python)
_CUPY = [name for name in PACKAGES if name.startswith("cupy")]


@combination_rules("{}-cuda", of="{} cuda", each=_CUPY, changes=_SUBJECTS, purposes=CODE)
def package_cuda(view: View, name: str, version: str, release: str) -> Iterator[Verdict]:
    """The CUDA whose libraries the wheels of a package load."""
    facts = view.facts.package(name)
    if facts.cuda and not meets(facts.cuda, release):
        yield error(f"the wheels of {name} load libraries of CUDA {facts.cuda}, not {release}", facts.source)


def _judge_both(name: str, other: str, view: View, version: str, release: str) -> Iterator[Verdict]:
    """A package without a pin of which two pins require different releases."""
    first, second = view.facts.package(name), view.facts.package(other)
    for dep in sorted(set(first.needs) & set(second.needs)):
        if view.pin(dep) is not None:
            continue
        mine = [row.spec for row in _rows(view, name, version, dep)]
        theirs = [row.spec for row in _rows(view, other, release, dep)]
        versions = releases(view.facts, dep)
        if mine and theirs and not any(all(meets(spec, v) for spec in (*mine, *theirs)) for v in versions):
            reason = f"{name} {version} requires {dep} {', '.join(mine)}, but {other} {release} {', '.join(theirs)}"
            yield error(f"{reason}: no release is within both", (*first.source, *second.source))


def _judge_through(name: str, between: str, other: str, view: View, version: str, release: str) -> Iterator[Verdict]:
    """Error if every release of `between` that a package accepts refuses this release of `other`."""
    specs = [row.spec for row in _between(view, name, version, between)]
    within = [v for v in releases(view.facts, between) if specs and all(meets(spec, v) for spec in specs)]
    refusals = [[row for row in _rows(view, between, v, other) if not meets(row.spec, release)] for v in within]
    if refusals and all(refusals):
        chain = f"{name} {version} requires {between} {', '.join(specs)}, and {between} {within[-1]} {other}"
        sources = (*view.facts.package(name).source, *view.facts.package(between).source)
        yield error(f"{chain} {refusals[-1][0].spec}, not {release}", sources)


def _between(view: View, name: str, version: str, between: str) -> Iterator[Accepts]:
    if (name, between) == ("transformers", "tokenizers"):
        return rows_for(view.facts.transformers.accepts, version)
    return _rows(view, name, version, between)


@rule("requires-through", changes=_SUBJECTS)
def through(view: View) -> Iterator[Problem]:
    """A package with a pin that one of its requirements refuses."""
    for name in (name for name in (*PACKAGES, *_OTHERS) if view.known_pin(name)):
        needs = (*view.facts.package(name).needs, *(("tokenizers",) if name == "transformers" else ()))
        for between in (package for package in needs if view.pin(package) is None):
            for other in (package for package in view.facts.package(between).needs if package != name):
                yield from problems(view, (name, other), partial(_judge_through, name, between, other), _NEWEST)


@rule("requires-together", changes=_SUBJECTS)
def together(view: View) -> Iterator[Problem]:
    """Two packages that require different releases of a third."""
    names = [name for name in (*PACKAGES, *_OTHERS) if view.known_pin(name)]
    for name, other in combinations(names, 2):
        if set(view.facts.package(name).needs) & set(view.facts.package(other).needs):
            yield from problems(view, (name, other), partial(_judge_both, name, other), _NEWEST)


@rule("known-clash", changes=_SUBJECTS)
def clash(view: View) -> Iterator[Problem]:
    """Pairs that pip installs together, and that fail."""
    for row in view.facts.clashes:
        if not row.purposes or view.stack.purpose in row.purposes:
            yield from problems(view, (row.pin, row.other), partial(_judge_clash, row))


def _judge_clash(row: Clash, _: View, version: str, other: str) -> Iterator[Verdict]:
    within = not older(other, row.other_from) and (not row.other_below or older(other, row.other_below))
    if row.covers(version) and within:
        yield error(row.text, row.source)
