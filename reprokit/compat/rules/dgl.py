"""DGL with torch, Python, CUDA, CMake and the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import Facts
from reprokit.compat.model import COMPILE
from reprokit.compat.releases import cuda_of_build
from reprokit.compat.rule import Problem, Verdict, combination_rule, error, needs, problems, rule, unknown, warning
from reprokit.compat.rules.cuda import runs_on
from reprokit.compat.rules.wheels import no_wheel, wheel_tag
from reprokit.compat.schema import rows_for
from reprokit.compat.version import at_most, begins, key, older, overlap, public, series
from reprokit.compat.view import View


def _python_tags(facts: Facts, version: str, build: str) -> tuple[str, ...] | None:
    """Python tags of the wheels on PyPI, None if PyPI has no such release."""
    cuda = build.startswith("cu")
    table = facts.dgl.pypi_cuda.get(f"dgl-{build}", {}) if cuda else facts.dgl.pypi_cpu.releases
    return next((tags for release, tags in table.items() if key(release) == key(version)), None)


@combination_rule("dgl-torch", of="dgl torch")
def dgl_torch(view: View, version: str, torch: str) -> Iterator[Verdict]:
    facts = view.facts.dgl
    dlpack, graphbolt = facts.bool_dlpack, facts.graphbolt
    if at_most(version, dlpack.to) and not older(torch, dlpack.torch_from):
        reason = f"DGL up to {dlpack.to} fails with torch {dlpack.torch_from} or later: {dlpack.text}"
        yield error(reason, dlpack.source)
    for row in rows_for(facts.torch, version):
        yield from needs(f"DGL {version}", "torch", row.torch_min, torch, row.source)
        if row.torch_max and older(row.torch_max, torch):
            yield error(f"DGL {version} has no graphbolt library for torch after {row.torch_max}", row.source)
    if version in graphbolt.libraries:
        libraries = graphbolt.libraries[version]
        if public(torch) not in libraries:
            reason = f"DGL {version} has graphbolt libraries for torch {', '.join(libraries)}, not for {torch}"
            yield error(reason, graphbolt.source)
    elif graphbolt.covers(version):
        yield warning(f"{graphbolt.text}: make sure that it has one for {torch}", graphbolt.source)


@combination_rule("dgl-python", of="dgl python")
def dgl_python(view: View, version: str, python: str) -> Iterator[Verdict]:
    pin = view.pin("dgl")
    tags = _python_tags(view.facts, version, pin.local if pin else "")
    if tags is None or "py3" in tags or wheel_tag(python) in tags:
        return
    yield no_wheel(f"DGL {version}", tags, python, view.facts.dgl.pypi_cpu.source)


@combination_rule("dgl-pypi", of="dgl")
def available(view: View, version: str) -> Iterator[Verdict]:
    """Releases that are not on PyPI."""
    pin, facts = view.pin("dgl"), view.facts.dgl.not_on_pypi
    build = pin.local if pin else ""
    if _python_tags(view.facts, version, build) is not None:
        return
    package = f"dgl-{build}" if build.startswith("cu") else "dgl"
    reason = f"PyPI has no wheel of {package} {version}; take it from {facts.place}, or build it from source"
    yield warning(reason, facts.source)


@rule("dgl-cuda", changes="cuda", purposes=("run",))
def dgl_cuda(view: View) -> Iterator[Problem]:
    """A prebuilt DGL that has no build for the CUDA of the stack."""
    dgl = view.known_pin("dgl")
    if dgl is None or not view.stack.gpus:
        return
    if not dgl.local and any(_python_tags(view.facts, v, "") is not None for v in dgl.versions):
        reason = "the wheel `dgl` on PyPI has no GPU code; use the build for your CUDA, such as dgl-cu102"
        yield Problem((dgl.label,), warning(reason, view.facts.dgl.pypi_cpu.source))
    yield from problems(view, ("dgl", "cuda"), _judge_cuda)


def _judge_cuda(view: View, version: str, release: str) -> Iterator[Verdict]:
    facts = view.facts
    row = next(rows_for(facts.dgl.cuda_builds, version), None)
    if row and not any(overlap(c, release) for c in row.cuda):
        doubtful = row.unverified or any(begins(c, release) for c in row.cuda_unverified)
        reason = f"DGL {version} was published for CUDA {', '.join(row.cuda)}, not {series(release)}"
        yield (unknown if doubtful else warning)(reason, facts.dgl.source_cuda_builds)


@combination_rule("dgl-libraries", of="dgl cuda_minor", changes="dgl cuda", purposes=("run", "import"))
def dgl_libraries(view: View, version: str, minor: str) -> Iterator[Verdict]:
    """The libraries of CUDA that a prebuilt DGL loads. Before CUDA 11 their names carry the minor."""
    pin = view.pin("dgl")
    built = cuda_of_build(pin.local) if pin else ""
    count = 2 if older(built or "0", "11.0") else 1
    if built and series(built, count) != series(minor, count):
        reason = f"DGL {version} for CUDA {built} loads libraries of CUDA {series(built, count)}, not {minor}"
        yield error(reason, ("dgl_1009",))


@rule("dgl-gpu", purposes=("run",))
def dgl_gpu(view: View) -> Iterator[Problem]:
    """The device code measured inside DGL's last CUDA wheels on PyPI."""
    dgl, pin = view.known_pin("dgl"), view.known_pin("cuda")
    if dgl is None:
        return
    cuda = cuda_of_build(dgl.local) if dgl.local.startswith("cu") else (series(pin.versions[0]) if pin else "")
    package = "dgl-cu" + cuda.replace(".", "")
    code = view.facts.dgl.device_code.get(package)
    if not code or any(key(v) != key(code.release) for v in dgl.versions):
        return
    has = f"the wheel {package} {code.release} has code for {', '.join(f'sm_{s}' for s in code.elf)}"
    for card in view.stack.gpus:
        if runs_on(view, card, code.elf):
            continue
        ptx = [p for p in code.ptx if int(p.removeprefix("compute_")) <= card.sm]
        if ptx:
            verdict = warning(f"{has}; on sm_{card.sm} the driver compiles its PTX at the first start", code.source)
        else:
            verdict = error(f"{has}, which does not run on sm_{card.sm}", code.source)
        yield Problem((dgl.label, card.label), verdict)


@combination_rule("dgl-cmake", of="dgl cmake", changes="cmake dgl", purposes=COMPILE)
def dgl_cmake(view: View, version: str, release: str) -> Iterator[Verdict]:
    """DGL built from source."""
    facts = view.facts.dgl
    for row in rows_for(facts.build, version):
        yield from needs(f"building DGL {version}", "CMake", row.cmake_min, release, facts.source_build, doubtful=True)


@combination_rule("dgl-gcc", of="dgl gcc", changes="gcc dgl", purposes=COMPILE)
def dgl_gcc(view: View, version: str, release: str) -> Iterator[Verdict]:
    facts = view.facts.dgl
    for row in rows_for(facts.build, version):
        yield from needs(f"building DGL {version}", "gcc", row.gcc_min, release, facts.source_build)
