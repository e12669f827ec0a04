"""PyTorch and its extensions: compilers, CUDA builds, and the GPUs that wheels have code for.

The capabilities inside a wheel decide, whatever CUDA the image has.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from reprokit.compat.model import CODE, COMPILE, KnownGpu
from reprokit.compat.releases import TorchWheel, build_of_cuda, cuda_of_build, torch_wheel
from reprokit.compat.rule import (
    Problem,
    Verdict,
    combination_rule,
    combination_rules,
    combined,
    doubt,
    error,
    info,
    needs,
    problems,
    rule,
    unknown,
    warning,
)
from reprokit.compat.rules.cuda import judge_gcc, runs_on
from reprokit.compat.schema import rows_for
from reprokit.compat.version import at_most, key, older, series
from reprokit.compat.view import View


@rule("torch-gcc", changes="gcc cuda", purposes=COMPILE)
def cpp_extension(view: View) -> Iterator[Problem]:
    """The gcc that torch's extension builder accepts for a CUDA; nvcc itself may accept more."""
    torch, cuda, gcc = view.known_pin("torch"), view.known_pin("cuda"), view.known_pin("gcc")
    if torch is None or gcc is None:
        return
    facts = view.facts.torch_build.cpp_extension
    too_old = [error(f"torch's cpp_extension needs gcc {facts.gcc_min} or later", facts.source)]
    old = combined((f"gcc {g}", too_old if older(g, facts.gcc_min) else ()) for g in gcc.versions)
    if old:
        yield Problem((torch.label, gcc.label), old)
    elif cuda is not None:
        for subjects, verdict in problems(view, ("cuda", "gcc"), _judge_bound):
            yield Problem((torch.label, *subjects), verdict)


def _judge_bound(view: View, release: str, gcc: str) -> Iterator[Verdict]:
    facts = view.facts.torch_build.cpp_extension
    bounds, nvcc = facts.gcc_below.get(series(release)), next(judge_gcc(view, release, gcc), None)
    if bounds is None or (nvcc is not None and nvcc.severity == "error"):
        return
    if key(gcc)[0] >= max(bounds):
        yield error(f"torch's cpp_extension needs gcc before {max(bounds)} with CUDA {release}", facts.source)
    if key(gcc)[0] >= min(bounds):
        reason = f"with CUDA {release} some torch releases accept gcc {gcc}, others only gcc before {min(bounds)}"
        yield warning(reason, facts.source)


@combination_rule("torch-gcc-most", of="torch cuda gcc", purposes=COMPILE)
def newest_gcc(view: View, version: str, release: str, gcc: str) -> Iterator[Verdict]:
    """Releases whose extension builder compares full versions: the bound 10.0.0 refuses gcc 10.2.1."""
    for row in rows_for(view.facts.torch_build.cpp_extension.gcc_most, version):
        most = row.cuda.get(series(release))
        if most and not at_most(gcc, most):
            takes = f"torch {version}'s cpp_extension takes gcc up to {most} with CUDA {series(release)}"
            yield error(f"{takes}, not {gcc}", row.source)


@combination_rule("torch-cxx", of="torch cxx_standard", changes="torch gcc", purposes=COMPILE)
def standard(view: View, version: str, cxx: str) -> Iterator[Verdict]:
    """The C++ standard of torch's headers, with the recipe's own."""
    for row in rows_for(view.facts.torch_build.cxx_standard, version):
        if int(cxx) < int(row.cxx):
            if row.cxx_works and int(cxx) >= int(row.cxx_works):
                reason = f"torch {version} is C++{row.cxx}; its headers compile as C++{cxx}, but with warnings"
                yield warning(reason, row.source)
            reason = f"the headers of torch {version} need C++{row.cxx}, but the code is compiled as C++{cxx}"
            yield error(reason, row.source)


@combination_rule("torch-cxx", of="torch gcc", purposes=COMPILE)
def standard_of_gcc(view: View, version: str, gcc: str) -> Iterator[Verdict]:
    """The C++ standard of torch's headers, with the compiler."""
    for row in rows_for(view.facts.torch_build.cxx_standard, version):
        what = f"torch {version} is C++{row.cxx} and"
        yield from needs(what, "gcc", row.gcc_min, gcc, row.source, row.gcc_min_unverified)


@combination_rule("torch-build", of="torch")
def exists(view: View, version: str) -> Iterator[Verdict]:
    """Whether the build that a local part names was published."""
    torch, release = view.pin("torch"), view.facts.torch.releases[version]
    if torch is None or torch.from_base or not torch.local or torch.local.startswith("cpu"):
        return
    cuda = cuda_of_build(torch.local)
    if not cuda:
        yield unknown(f"no fact covers the build {torch.local!r} of torch {version}")
    if cuda in release.builds or cuda in release.unlisted_builds:
        return
    has = ", ".join(map(build_of_cuda, release.builds))
    if cuda in release.conda_builds:
        reason = f"torch {version} for CUDA {cuda} is a conda package; its wheels are {has}"
        yield warning(reason, release.source)
    if {"builds", "all"} & set(release.unverified) or torch.local in release.cudnn:
        reason = f"no fact says whether torch {version} has a wheel {torch.local}; known are {has}"
        yield unknown(reason, release.source)
    yield error(f"torch {version} has no wheel {torch.local}; it has {has}", release.source)


@combination_rule("torch-assumed-build", of="torch", changes="")
def assumed(view: View, version: str) -> Iterator[Verdict]:
    """Name the build that was judged if the pin names none."""
    torch, build = view.pin("torch"), view.torch_build(version)
    if torch and build and not torch.local:
        default, sources = view.facts.torch.releases[version].default, view.facts.torch.releases[version].source
        means = f"taken as torch {version}+{build}, for the pinned CUDA; the wheel on PyPI is for CUDA {default}"
        yield info(means, sources)


@combination_rule("torch-cuda", of="torch_wheel cuda_minor", changes="torch cuda", purposes=COMPILE)
def torch_cuda(view: View, wheel: TorchWheel, minor: str) -> Iterator[Verdict]:
    """The nvcc that compiles extensions, against the wheel's CUDA."""
    torch, cuda = view.pin("torch"), view.pin("cuda")
    if torch is None or cuda is None or (torch.from_base and cuda.from_base) or wheel.cuda in ("", minor):
        return
    on_pypi = not view.torch_build(wheel.version)
    where = " on PyPI" if on_pypi else ""
    if on_pypi and minor in view.facts.torch.releases[wheel.version].builds:
        where += f" (its build {build_of_cuda(minor)} is for CUDA {minor})"
    built = f"torch {wheel.version} is built for CUDA {wheel.cuda}{where}"
    sources = (*wheel.sources, "pt_cpp_ext", "pt_cuda_mismatch")
    if wheel.cuda.split(".")[0] == minor.split(".")[0]:
        yield warning(f"{built}: its cpp_extension compiles with CUDA {minor}, but warns of the other minor", sources)
    reason = f"{built}: its cpp_extension refuses to compile with CUDA {minor}, another major"
    if wheel.uncertain:
        yield doubt(f"{reason} (the CUDA of PyPI's build is not verified)", sources)
    yield error(reason, sources)


def judge_gpu(view: View, wheel: TorchWheel, gpu: KnownGpu) -> Iterator[Verdict]:
    if not wheel.cuda:
        return
    built = view.facts.cuda.toolkits.get(wheel.cuda)
    if built and gpu.sm in built.libraries_fail:
        reason = f"cuBLAS and cuDNN of CUDA {wheel.cuda}, which are in {wheel.label}, fail on sm_{gpu.sm}"
        yield (doubt if wheel.uncertain else error)(reason, (*wheel.sources, *built.source_libraries))
    if wheel.sm is None:
        yield from _unmeasured(view, wheel, gpu)
        return
    if runs_on(view, gpu, wheel.sm):
        if built and gpu.sm in built.cufft_fails:
            yield warning(f"cuFFT of CUDA {wheel.cuda} fails on sm_{gpu.sm}: torch.fft does", built.source_cufft)
        for row in rows_for(view.facts.torch_build.nvrtc, wheel.version):
            if built and gpu.sm > max(built.sm):
                reason = f"NVRTC of CUDA {wheel.cuda} does not know sm_{gpu.sm}: TorchScript and operators that are "
                yield warning(f"{reason}compiled at run time fail", row.source)
        return
    reason = f"{wheel.label} has kernels for {_sms(wheel.sm)} and no PTX: nothing in it runs on sm_{gpu.sm}"
    if ptx := [p for p in wheel.ptx if p <= gpu.sm]:
        toolkit = view.facts.cuda.toolkits.get(wheel.cuda)
        if toolkit is None or gpu.sm // 10 <= max(toolkit.sm) // 10:
            return
        reason = (
            f"{wheel.label} has PTX for sm_{max(ptx)}, which sm_{gpu.sm} can compile, but its cuBLAS and cuDNN have "
            "nothing for that GPU"
        )
        yield error(reason, (*wheel.sources, "pt_45028"))
    if wheel.uncertain:
        yield doubt(f"{reason} (the CUDA of PyPI's build is not verified)", wheel.sources)
    if not wheel.verified:
        yield doubt(f"{reason} (this list of capabilities is not verified)", wheel.sources)
    yield error(reason, (*wheel.sources, "cubin_rule"))


torch_gpu = combination_rule("torch-gpu", of="torch_wheel gpu", changes="torch", purposes=CODE)(judge_gpu)


def _unmeasured(view: View, wheel: TorchWheel, gpu: KnownGpu) -> Iterator[Verdict]:
    """A wheel that was not read: judge by conda's package, which has a superset of its capabilities, and by nvcc."""
    if wheel.conda_sm is not None:
        if runs_on(view, gpu, wheel.conda_sm):
            return
        reason = f"even the conda package of {wheel.label} has only {_sms(wheel.conda_sm)}: none runs on sm_{gpu.sm}"
        if wheel.uncertain or not wheel.verified:
            yield doubt(reason, wheel.sources)
        yield error(reason, (*wheel.sources, "cubin_rule"))
    toolkit = view.facts.cuda.toolkits.get(wheel.cuda)
    if toolkit and (gpu.sm < min(toolkit.sm) or gpu.sm // 10 > max(toolkit.sm) // 10):
        reason = f"{wheel.label} has nothing for sm_{gpu.sm}: its CUDA does not support that GPU"
        yield (doubt if wheel.uncertain else error)(reason, (*wheel.sources, *toolkit.source_sm, "pt_45028"))
    if toolkit and not runs_on(view, gpu, toolkit.sm):
        reason = (
            f"{wheel.label} has no code for sm_{gpu.sm}, which its CUDA does not support; whether it has PTX is unknown"
        )
        yield warning(reason, (*wheel.sources, *toolkit.source_sm))
    yield unknown(f"no fact says which GPUs {wheel.label} has kernels for", wheel.sources)


def _sms(sms: tuple[int, ...]) -> str:
    return ", ".join(f"sm_{sm}" for sm in sms)


@rule("torch-cpu-build", changes="torch", purposes=CODE)
def cpu_build(view: View) -> Iterator[Problem]:
    """A CPU build if a GPU is needed."""
    torch = view.known_pin("torch")
    if torch and torch.local.startswith("cpu") and view.stack.needs_gpu == "required":
        reason = "this is a CPU build, but the stack needs a GPU; pin a CUDA build, such as torch=2.6.0+cu124"
        yield Problem((torch.label,), error(reason, ("pt_prev",)))


@combination_rules("{}-torch-gpu", of="{} gpu", each=("vllm", "xformers", "torchaudio"), changes="{}", purposes=CODE)
def required_torch_gpu(view: View, name: str, version: str, gpu: KnownGpu) -> Iterator[Verdict]:
    """The torch that a package of wheels requires, with the GPU, if the stack does not pin torch itself."""
    spec = view.facts.wheels[name].releases[version].torch
    if view.pin("torch") is not None or not spec.startswith("=="):
        return
    reasons, sources = [], view.facts.wheels[name].source
    for torch, release in view.facts.torch.releases.items():
        for cuda in release.builds if SpecifierSet(spec).contains(torch) else ():
            wheel = torch_wheel(view.facts, torch, build_of_cuda(cuda))
            verdict = next(judge_gpu(view, wheel, gpu), None)
            if verdict is None or verdict.severity != "error":
                return
            reasons.append(verdict.reason)
    if reasons:
        yield error(f"{name} {version} requires torch {spec.removeprefix('==')}: {reasons[-1]}", sources)


@combination_rule("apex-same-cuda", of="apex torch_wheel cuda_minor", changes="torch cuda", purposes=COMPILE)
def apex(view: View, version: str, wheel: TorchWheel, minor: str) -> Iterator[Verdict]:
    """apex refuses an nvcc whose CUDA is not torch's, minor included."""
    if wheel.cuda and not wheel.uncertain and wheel.cuda != minor:
        reason = f"apex refuses to build its CUDA extensions with CUDA {minor} and {wheel.label}"
        yield error(reason, view.facts.wheels["apex"].source)


@combination_rule("bitsandbytes-torch", of="bitsandbytes torch_wheel", changes="bitsandbytes torch", purposes=CODE)
def bitsandbytes(view: View, version: str, wheel: TorchWheel) -> Iterator[Verdict]:
    """bitsandbytes loads a library named after torch's CUDA; some releases import the removed `triton.ops`."""
    table = view.facts.wheels["bitsandbytes"]
    cudas, torch = table.releases[version].cuda, table.releases[version].torch
    if wheel.cuda and not SpecifierSet(torch).contains(wheel.version):
        reason = f"bitsandbytes {version} works with torch {torch}, not {wheel.version}: it imports triton.ops"
        yield error(f"{reason}, which newer triton lacks", table.source)
    if cudas and wheel.cuda and not wheel.uncertain and wheel.cuda not in cudas:
        has = f"the wheel of bitsandbytes {version} has libraries for CUDA {', '.join(cudas)}"
        yield error(f"{has}, none for {wheel.label}", table.source)


@combination_rule("bitsandbytes-cuda", of="bitsandbytes cuda_minor", changes="bitsandbytes cuda", purposes=CODE)
def bitsandbytes_alone(view: View, version: str, minor: str) -> Iterator[Verdict]:
    """bitsandbytes before 0.43 with the installed CUDA, which it looks up itself, if torch's is unknown."""
    table = view.facts.wheels["bitsandbytes"]
    cudas = table.releases[version].cuda
    if cudas and minor not in cudas and older(version, "0.43") and view.pin("torch") is None:
        has = f"the wheel of bitsandbytes {version} has libraries for CUDA {', '.join(cudas)}"
        yield error(f"{has}, none for {minor}", table.source)
