"""Wheels with Python, with each other, and with the distribution's C library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.specifiers import SpecifierSet

from reprokit.compat.package_schema import WheelRelease
from reprokit.compat.rule import (
    CompatRule,
    Problem,
    Verdict,
    combination_rule,
    combined,
    error,
    info,
    needs,
    rule,
    unknown,
    warning,
)
from reprokit.compat.schema import Needs, rows_for
from reprokit.compat.torch_wheel import cuda_of_build, torch_wheel
from reprokit.compat.version import at_most, key, older, public, series
from reprokit.compat.view import View


def wheel_tag(python: str) -> str:
    """`cp38` of `3.8.10`."""
    return "cp" + series(python).replace(".", "")


def has_wheel(tags: Sequence[str], abi3: bool, python: str) -> bool:
    """Whether one of the wheels with these tags, such as cp38, loads in a Python; with `abi3` later ones do."""
    tag = wheel_tag(python)
    return tag in tags or (abi3 and int(tag[3:]) > int(tags[0][3:]))


def no_wheel(what: str, tags: Iterable[str], python: str, sources: Iterable[str], later: bool = False) -> Verdict:
    """The error that none of the wheels with these tags, such as cp38, fits; free-threaded tags are not named."""
    has = ", ".join(f"{t[2]}.{t[3:]}" for t in tags if t.startswith("cp") and not t.endswith("t"))
    return error(f"{what} has wheels for Python {has}{' and later' if later else ''}, not {series(python)}", sources)


def _both_from_base(view: View, one: str, other: str) -> bool:
    return all(pin is not None and pin.from_base for pin in (view.pin(one), view.pin(other)))


def _one_build(view: View, name: str, sources: Iterable[str]) -> Iterator[Verdict]:
    """Whether the pins of a package and of torch name the same build, where both name one."""
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


def _wheels_python(name: str) -> CompatRule:
    """A package of compiled wheels with Python."""

    @combination_rule(f"{name}-python", of=f"{name} python")
    def check(view: View, version: str, python: str) -> Iterator[Verdict]:
        release, sources = view.facts.wheels[name].releases[version], view.facts.wheels[name].source
        if not _fits(release, python):
            yield no_wheel(f"{name} {version}", release.python, python, sources, release.abi3)
        for other, spec in release.requires.items():
            if other in view.facts.wheels and not _has_wheel(view, other, spec, python):
                reason = f"{name} {version} needs {other} {spec}, which has no wheel for Python {series(python)}"
                yield error(reason, sources)

    return check


def _wheels_torch(name: str) -> CompatRule:
    """A package of wheels that are made for one torch."""

    @combination_rule(f"{name}-torch", of=f"{name} torch")
    def check(view: View, version: str, torch: str) -> Iterator[Verdict]:
        release, sources = view.facts.wheels[name].releases[version], view.facts.wheels[name].source
        if release.torch and not SpecifierSet(release.torch).contains(torch):
            reason = f"the wheel of {name} {version} requires torch {release.torch.removeprefix('==')}, not {torch}"
            if torch in release.runs:
                yield warning(f"{reason}: it runs, but pip installs it only with --no-deps", sources)
            yield error(reason, sources)
        yield from _one_build(view, name, sources)
        yield from _one_major(view, name, version, sources)

    return check


def _one_major(view: View, name: str, version: str, sources: Iterable[str]) -> Iterator[Verdict]:
    """Whether the wheel on PyPI, which is for one CUDA, fits the build of torch."""
    pin, torch, cudas = view.pin(name), view.pin("torch"), view.facts.wheels[name].releases[version].cuda
    if not cudas or pin is None or pin.local or torch is None or not torch.local:
        return
    cuda = cuda_of_build(torch.local)
    if not cuda or series(cuda, 1) not in {series(each, 1) for each in cudas}:
        reason = f"the wheel of {name} {version} on PyPI is for CUDA {' and '.join(cudas)}: its kernels do not load"
        yield error(f"{reason} with torch's build {torch.local}; pin the build of {name} for it", sources)


tokenizers_python, torchaudio_python, xformers_python = map(_wheels_python, ("tokenizers", "torchaudio", "xformers"))
tensorflow_python, jax_python, jaxlib_python, triton_python = map(
    _wheels_python, ("tensorflow", "jax", "jaxlib", "triton")
)
torchtext_python, vllm_python = map(_wheels_python, ("torchtext", "vllm"))
torchaudio_torch, xformers_torch = map(_wheels_torch, ("torchaudio", "xformers"))
torchtext_torch, vllm_torch = map(_wheels_torch, ("torchtext", "vllm"))


def _required(name: str, other: str) -> CompatRule:
    """A package with a pin whose releases it bounds."""

    @combination_rule(f"{name}-{other}", of=f"{name} {other}")
    def check(view: View, version: str, release: str) -> Iterator[Verdict]:
        spec = view.facts.wheels[name].releases[version].requires.get(other, "")
        # The facts know minors of NumPy, each with its patches.
        meant = (release, f"{release}.99") if other == "numpy" and release == series(release) else (release,)
        if not any(SpecifierSet(spec).contains(v, prereleases=True) for v in meant):
            yield error(f"{name} {version} requires {other} {spec}, not {release}", view.facts.wheels[name].source)

    return check


jax_jaxlib, jax_numpy, tensorflow_numpy, vllm_transformers, vllm_xformers = (
    _required("jax", "jaxlib"), _required("jax", "numpy"), _required("tensorflow", "numpy"),
    _required("vllm", "transformers"), _required("vllm", "xformers"),
)  # fmt: skip


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
    """Whether a release has a wheel for a Python; where no fact says so, it may."""
    return not release.python or has_wheel(release.python, release.abi3, python)


@rule("numpy-projects", changes="numpy tvm torch")
def numpy_projects(view: View) -> Iterator[Problem]:
    """Projects that use what NumPy removed, or that were built for its older ABI."""
    numpy = view.known("numpy")
    for row in view.facts.numpy.projects if numpy else ():
        pin = view.known(row.pin)
        if pin is None or numpy is None:
            continue
        verdict = [error(f"{row.text}; pin numpy below {row.numpy_below}", row.source)]
        verdicts = (
            (f"{row.pin} {v} with numpy {n}", verdict if row.covers(v) and not older(n, row.numpy_below) else ())
            for v in pin.versions
            for n in numpy.versions
        )
        yield Problem((pin.label, numpy.label), combined(verdicts))


@rule("wheel-glibc", changes="torch torchvision torchaudio dgl tvm tensorflow jaxlib triton vllm bitsandbytes distro")
def glibc(view: View) -> Iterator[Problem]:
    """The C library that a wheel's tag asks for, against the distribution's."""
    distro = view.known("distro")
    for name in ("torch", "dgl", "tvm", *view.facts.glibc) if distro else ():
        pin = view.known(name)
        if pin is None or distro is None or pin.from_base:
            continue
        verdict = combined((f"{name} {v}", _judge_glibc(view, name, v, distro.versions[0])) for v in pin.versions)
        yield Problem((pin.label, distro.label), verdict)


def _judge_glibc(view: View, name: str, version: str, distro: str) -> Iterator[Verdict]:
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
