"""TensorFlow, JAX and ONNX Runtime with what they load, the GPU and the driver; triton and vLLM with the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from reprokit.compat.model import CODE, KnownGpu
from reprokit.compat.rule import CompatRule, Verdict, combination_rule, error, needs
from reprokit.compat.rules.cuda import judge_driver
from reprokit.compat.schema import FrameworkBuild, rows_for
from reprokit.compat.view import View

_SHOWN = {"tensorflow": "TensorFlow", "jax": "JAX", "jaxlib": "jaxlib", "onnxruntime_gpu": "ONNX Runtime"}


def _builds(view: View, name: str, version: str) -> Iterator[FrameworkBuild]:
    pin = view.pin(name)
    for row in rows_for(view.facts.frameworks[name], version):
        if not row.local or (pin and row.local == pin.local):
            yield row


def _library(name: str, library: str, shown: str) -> CompatRule:
    """A framework with a library beside it; with one that does not fit it finds no GPU, or stops at the first use."""

    @combination_rule(f"{name}-{library}", of=f"{name} {library}", purposes=CODE)
    def check(view: View, version: str, release: str) -> Iterator[Verdict]:
        for row in _builds(view, name, version):
            spec = row.cuda if library == "cuda" else row.cudnn
            if not SpecifierSet(spec).contains(release):
                yield error(f"{_SHOWN[name]} {version} loads {shown} {spec}, not {release}", row.source)

    return check


def _gpu(name: str) -> CompatRule:
    @combination_rule(f"{name}-gpu", of=f"{name} gpu", changes=name, purposes=CODE)
    def check(view: View, version: str, gpu: KnownGpu) -> Iterator[Verdict]:
        for row in _builds(view, name, version):
            toolkit = view.facts.cuda.toolkits[row.built]
            if gpu.capability[0] > max(toolkit.sm) // 10:
                built = f"{_SHOWN[name]} {version} is built with CUDA {row.built}"
                yield error(f"{built}, whose libraries have nothing for sm_{gpu.sm}", (*row.source, *toolkit.source_sm))

    return check


def _driver(name: str) -> CompatRule:
    @combination_rule(f"{name}-driver", of=f"{name} driver", changes=f"{name} driver", purposes=CODE)
    def check(view: View, version: str, driver: str) -> Iterator[Verdict]:
        for row in _builds(view, name, version):
            what = f"{_SHOWN[name]} {version}+{row.local}"
            yield from needs(what, "driver", row.driver_min, driver, row.source)
        if view.pin("cuda") is None:  # else `cuda-driver` judges that
            for row in _builds(view, name, version):
                yield from (v for v in judge_driver(view, row.built, driver) if v.severity == "error")

    return check


@combination_rule("jax-driver", of="jax cuda driver", changes="jax cuda driver", purposes=CODE)
def jax_links(view: View, version: str, release: str, driver: str) -> Iterator[Verdict]:
    """Releases that let the driver link what a newer ptxas compiled; a branch such as 470 means its last driver."""
    last = driver if "." in driver else f"{driver}.999"
    for row in _builds(view, "jax", version):
        if row.links and any(v.severity == "warning" for v in judge_driver(view, release, last)):
            reason = f"JAX {version} lets the driver link what CUDA {release} compiled, and driver {driver} is older"
            yield error(f"{reason}: no kernel image is available", row.source)


def _ptxas(name: str) -> CompatRule:
    @combination_rule(f"{name}-ptxas", of=f"{name} cuda_minor gpu", changes="cuda", purposes=CODE)
    def check(view: View, version: str, minor: str, gpu: KnownGpu) -> Iterator[Verdict]:
        """What JAX compiles at run time, it assembles with the toolkit's ptxas, for the GPU's own capability."""
        toolkit = view.facts.cuda.toolkits[minor]
        if gpu.sm > max(toolkit.sm):
            reason = f"{_SHOWN[name]} {version} compiles with ptxas of CUDA {minor}, which does not know sm_{gpu.sm}"
            yield error(reason, (*toolkit.source_sm, "jax_13570"))

    return check


tensorflow_cuda, jax_cuda, jaxlib_cuda, onnxruntime_cuda = (_library(name, "cuda", "CUDA") for name in _SHOWN)
tensorflow_cudnn, jax_cudnn, jaxlib_cudnn, onnxruntime_cudnn = (_library(name, "cudnn", "cuDNN") for name in _SHOWN)
tensorflow_gpu, jax_gpu, jaxlib_gpu, onnxruntime_gpu = map(_gpu, _SHOWN)
tensorflow_driver, jax_driver, jaxlib_driver, onnxruntime_driver = map(_driver, _SHOWN)


@combination_rule("jaxlib-build", of="jaxlib", changes="jaxlib")
def jaxlib_build(view: View, version: str) -> Iterator[Verdict]:
    """A build that this release was not published in."""
    pin = view.pin("jaxlib")
    rows = [row for row in view.facts.frameworks["jaxlib"] if pin and pin.local and row.local == pin.local]
    if pin and rows and not any(row.covers(version) for row in rows):
        yield error(f"jaxlib {version} has no build {pin.local}: the last is of {rows[-1].to}", rows[-1].source)


jax_ptxas, jaxlib_ptxas = map(_ptxas, ("jax", "jaxlib"))


def _lowest_gpu(name: str) -> CompatRule:
    @combination_rule(f"{name}-gpu", of=f"{name} gpu", changes="", purposes=CODE)
    def check(view: View, version: str, gpu: KnownGpu) -> Iterator[Verdict]:
        least = view.facts.torch_build.lowest_gpu[name]
        if gpu.sm < int(least.cc_min.replace(".", "")):
            reason = f"{name} {version} has kernels for capability {least.cc_min} or later, not for sm_{gpu.sm}"
            yield error(reason, least.source)

    return check


triton_gpu, vllm_gpu = map(_lowest_gpu, ("triton", "vllm"))
