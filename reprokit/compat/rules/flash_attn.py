"""flash-attn with CUDA, torch, Python and the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import CODE, COMPILE, KnownGpu
from reprokit.compat.releases import TorchWheel
from reprokit.compat.rule import Verdict, combination_rule, error, needs, warning
from reprokit.compat.schema import rows_for
from reprokit.compat.version import begins, older, series
from reprokit.compat.view import View


@combination_rule("flash-attn-cuda", of="flash_attn cuda", purposes=CODE)
def cuda(view: View, version: str, release: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.flash_attn.series, version):
        if older(release, row.cuda_min) and row.cuda_min_setup and not older(release, row.cuda_min_setup):
            documents = f"flash-attn {version} documents CUDA {row.cuda_min} or later"
            yield warning(f"{documents}; its setup.py accepts {row.cuda_min_setup}", row.source)
        yield from needs(f"flash-attn {version}", "CUDA", row.cuda_min, release, row.source)
        if row.cuda_below and not older(release, row.cuda_below):
            yield error(f"flash-attn {version} needs CUDA before {row.cuda_below}, not {series(release)}", row.source)


@combination_rule("flash-attn-torch", of="flash_attn torch")
def torch(view: View, version: str, release: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.flash_attn.series, version):
        yield from needs(f"flash-attn {version}", "torch", row.torch_min, release, row.source)


@combination_rule("flash-attn-wheel", of="flash_attn torch_wheel", changes="flash_attn torch",
                  purposes=("run", "import"))  # fmt: skip
def wheel(view: View, version: str, built: TorchWheel) -> Iterator[Verdict]:
    """Prebuilt wheels that were built with another torch than their name states."""
    for row in rows_for(view.facts.flash_attn.broken_wheels, version):
        if begins(row.torch, built.version) and (not row.builds or built.build in row.builds):
            reason = f"the wheels of flash-attn {version} do not load with {built.label}: {row.text}"
            yield error(f"{reason}; compile it", row.source)


@combination_rule("flash-attn-python", of="flash_attn python")
def python(view: View, version: str, release: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.flash_attn.series, version):
        doubtful = row.python_min_unverified
        yield from needs(f"flash-attn {version}", "Python", row.python_min, release, row.source, doubtful)


@combination_rule("flash-attn-glibc", of="flash_attn distro")
def glibc(view: View, version: str, name: str) -> Iterator[Verdict]:
    """The C library that prebuilt wheels need; a build from source has no such bound."""
    has = view.distro(name)
    for row in rows_for(view.facts.flash_attn.series, version):
        if older(has.glibc, row.glibc):
            wheels, sources = f"the prebuilt wheels of flash-attn {version}", (*row.source, *has.source)
            reason = f"{wheels} need glibc {row.glibc} or later, but {name} has {has.glibc}"
            if view.stack.purpose == "compile":
                yield warning(f"{reason}; set FLASH_ATTENTION_FORCE_BUILD=TRUE to compile it", sources)
            yield error(reason, sources)


@combination_rule("flash-attn-same-cuda", of="flash_attn torch_wheel cuda_minor", changes="flash_attn torch cuda",
                  purposes=COMPILE)  # fmt: skip
def same_cuda(view: View, version: str, wheel: TorchWheel, minor: str) -> Iterator[Verdict]:
    """flash-attn 1.x refuses an nvcc whose CUDA is not torch's, minor included."""
    for row in rows_for(view.facts.flash_attn.series, version):
        if row.same_cuda_as_torch and wheel.cuda and not wheel.uncertain and wheel.cuda != minor:
            reason = f"flash-attn {version} refuses to build with CUDA {minor} and a torch built for CUDA {wheel.cuda}"
            yield error(reason, row.source)


@combination_rule("flash-attn-gpu", of="flash_attn gpu", changes="flash_attn cuda", purposes=CODE)
def gpu(view: View, version: str, card: KnownGpu) -> Iterator[Verdict]:
    major, cuda_pin = card.capability[0], view.known_pin("cuda")
    for row in rows_for(view.facts.flash_attn.series, version):
        if card.sm < int(row.cc_min.replace(".", "")):
            reason = f"flash-attn {version} needs compute capability {row.cc_min} or later, not sm_{card.sm}"
            yield error(reason, row.source)
        if major > int(row.cc_known_max.split(".")[0]):
            reason = f"flash-attn {version} has code for capabilities up to {row.cc_known_max} and no PTX"
            yield error(f"{reason}: nothing in it runs on sm_{card.sm}", (*row.source, "cubin_rule"))
        blackwell = row.blackwell_cuda_min
        if major >= 10 and cuda_pin and all(older(v, blackwell) for v in cuda_pin.versions):
            reason = f"flash-attn {version} supports capability {major}.x only with CUDA {blackwell} or later"
            yield error(reason, row.source)
