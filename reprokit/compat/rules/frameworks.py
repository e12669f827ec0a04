"""TensorFlow, JAX and ONNX Runtime with what they load, the GPU and the driver; triton and vLLM with the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from packaging.specifiers import SpecifierSet

from reprokit.compat.model import CODE, KnownGpu
from reprokit.compat.rule import Verdict, combination_rule, combination_rules, error, needs
from reprokit.compat.rules.cuda import judge_driver
from reprokit.compat.schema import FrameworkBuild, rows_for
from reprokit.compat.view import View

_SHOWN = {"tensorflow": "TensorFlow", "jax": "JAX", "jaxlib": "jaxlib", "onnxruntime_gpu": "ONNX Runtime"}


def _builds(view: View, name: str, version: str) -> Iterator[FrameworkBuild]:
    pin = view.pin(name)
    for row in rows_for(view.facts.frameworks[name], version):
        if not row.local or (pin and row.local == pin.local):
            yield row


@combination_rules("{}-{}", of="{} {}", each=product(_SHOWN, ("cuda", "cudnn")), purposes=CODE)
def library(view: View, name: str, library: str, version: str, release: str) -> Iterator[Verdict]:
    """A framework with an installed library: if it does not fit, no GPU is found, or its first use fails."""
    for row in _builds(view, name, version):
        spec, shown = (row.cuda, "CUDA") if library == "cuda" else (row.cudnn, "cuDNN")
        if not SpecifierSet(spec).contains(release):
            yield error(f"{_SHOWN[name]} {version} loads {shown} {spec}, not {release}", row.source)


@combination_rules("{}-gpu", of="{} gpu", each=_SHOWN, changes="{}", purposes=CODE)
def gpu(view: View, name: str, version: str, card: KnownGpu) -> Iterator[Verdict]:
    for row in _builds(view, name, version):
        toolkit = view.facts.cuda.toolkits[row.built]
        if card.capability[0] > max(toolkit.sm) // 10:
            built = f"{_SHOWN[name]} {version} is built with CUDA {row.built}"
            yield error(f"{built}, whose libraries have nothing for sm_{card.sm}", (*row.source, *toolkit.source_sm))


@combination_rules("{}-driver", of="{} driver", each=_SHOWN, purposes=CODE)
def driver(view: View, name: str, version: str, release: str) -> Iterator[Verdict]:
    for row in _builds(view, name, version):
        what = f"{_SHOWN[name]} {version}+{row.local}"
        yield from needs(what, "driver", row.driver_min, release, row.source)
    if view.pin("cuda") is None:  # else `cuda-driver` judges it
        for row in _builds(view, name, version):
            yield from (v for v in judge_driver(view, row.built, release) if v.severity == "error")


@combination_rule("jax-driver", of="jax cuda driver", changes="jax cuda driver", purposes=CODE)
def jax_links(view: View, version: str, release: str, driver: str) -> Iterator[Verdict]:
    """Releases that let the driver link what a newer ptxas compiled; a branch such as 470 means its last driver."""
    last = driver if "." in driver else f"{driver}.999"
    for row in _builds(view, "jax", version):
        if row.links and any(v.severity == "warning" for v in judge_driver(view, release, last)):
            reason = f"JAX {version} lets the driver link what CUDA {release} compiled, and driver {driver} is older"
            yield error(f"{reason}: no kernel image is available", row.source)


@combination_rules("{}-ptxas", of="{} cuda_minor gpu", each=("jax", "jaxlib"), changes="cuda", purposes=CODE)
def ptxas(view: View, name: str, version: str, minor: str, card: KnownGpu) -> Iterator[Verdict]:
    """JAX assembles code at run time with the toolkit's ptxas, which must support the GPU."""
    toolkit = view.facts.cuda.toolkits[minor]
    if card.sm > max(toolkit.sm):
        reason = f"{_SHOWN[name]} {version} compiles with ptxas of CUDA {minor}, which does not know sm_{card.sm}"
        yield error(reason, (*toolkit.source_sm, "jax_13570"))


@combination_rule("jaxlib-build", of="jaxlib", changes="jaxlib")
def jaxlib_build(view: View, version: str) -> Iterator[Verdict]:
    """A build that was not published for this release."""
    pin = view.pin("jaxlib")
    rows = [row for row in view.facts.frameworks["jaxlib"] if pin and pin.local and row.local == pin.local]
    if pin and rows and not any(row.covers(version) for row in rows):
        yield error(
            f"jaxlib {version} has no build {pin.local}; {rows[-1].to} was the last release with it", rows[-1].source
        )


@combination_rules("{}-gpu", of="{} gpu", each=("triton", "vllm"), changes="", purposes=CODE)
def lowest_gpu(view: View, name: str, version: str, card: KnownGpu) -> Iterator[Verdict]:
    least = view.facts.torch_build.lowest_gpu[name]
    if card.sm < int(least.cc_min.replace(".", "")):
        reason = f"{name} {version} has kernels for capability {least.cc_min} or later, not for sm_{card.sm}"
        yield error(reason, least.source)
