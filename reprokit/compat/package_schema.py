"""The schema of the facts on packages and source trees."""

from __future__ import annotations

from pydantic import Field

from reprokit.compat.schema import AffectedPin, Fact, Needs, Numbers, Span, Table, Texts


class CutlassRelease(Needs):
    sm_max: int
    gcc_fails: Texts = ()


class CutlassArchs(Span):
    cuda_from: str


class CutlassFacts(Fact):
    releases: tuple[CutlassRelease, ...]
    versions: Texts
    default_archs: CutlassArchs


class CudnnPair(Fact):
    cuda: str
    cudnn: str


class CudnnImages(Fact):
    pairs: tuple[CudnnPair, ...]


class CudnnPackage(Fact):
    """The cuDNN releases on PyPI for one CUDA major."""

    cuda_major: int
    first: str
    last: str


class CapabilityMin(Span):
    cc_min: str


class CudnnFacts(Fact):
    """`published` has every series of two numbers, and from 8.5 on every release of three."""

    published: Texts
    source_published: Texts
    gpu: tuple[CapabilityMin, ...]
    in_nvidia_images: CudnnImages
    pypi: tuple[CudnnPackage, ...]
    debian: tuple[CudnnPair, ...]


class DglElsewhere(Fact):
    releases: Texts
    place: str


class DeviceCode(Fact):
    """The kernels inside the wheels of one release: compiled for the capabilities `elf`, as PTX for those of `ptx`."""

    release: str
    elf: Numbers
    ptx: Texts


class DglCuda(Span):
    cuda: Texts
    cuda_unverified: Texts = ()
    unverified: bool = False


class DglDlpack(Span):
    torch_from: str


class Graphbolt(Span):
    """`libraries` are the torch releases that a DGL wheel has a library for, where the wheel was read."""

    libraries: dict[str, Texts]


class DglFacts(Fact):
    pypi_cpu: Table[Texts]
    pypi_cuda: dict[str, dict[str, Texts]]
    not_on_pypi: DglElsewhere
    glibc: tuple[Needs, ...]
    device_code: dict[str, DeviceCode]
    cuda_builds: tuple[DglCuda, ...]
    source_cuda_builds: Texts
    torch: tuple[Needs, ...]
    graphbolt: Graphbolt
    bool_dlpack: DglDlpack
    build: tuple[Needs, ...]
    source_build: Texts


class FlashAttention(Needs):
    cuda_min_setup: str = ""
    python_min_unverified: bool = False
    cc_min: str
    cc_known_max: str
    same_cuda_as_torch: bool = False
    blackwell_cuda_min: str = ""


class BrokenWheel(Span):
    """Releases whose prebuilt wheels do not load with a torch, or with its `builds`; a short `torch` is its series."""

    torch: str
    builds: Texts = ()


class FlashAttentionFacts(Fact):
    series: tuple[FlashAttention, ...]
    broken_wheels: tuple[BrokenWheel, ...]
    versions: Texts


class LlvmArchive(Fact):
    """The LLVM majors in an archive. `complete`: a major that is not listed is known to be absent."""

    majors: Texts
    unverified_majors: Texts = ()
    maybe: Texts = ()
    complete: bool = False
    first: str = Field("", alias="from")
    none_from: str = ""


class LlvmFacts(Fact):
    archives: dict[str, LlvmArchive]
    apt_llvm_org: dict[str, LlvmArchive]
    releases: Texts


class BareProject(Fact):
    """A source tree that does not build without its submodules."""

    needs: Texts
    symptom: str


class NumpyRelease(Fact):
    """A minor release. `first_patch`: the patch release that first had wheels for a Python, where not the first."""

    python: Texts
    first_patch: dict[str, str]


class NumpyFacts(Fact):
    releases: dict[str, NumpyRelease]
    projects: tuple[AffectedPin, ...]


class TorchRelease(Fact):
    """A release. `default` is the CUDA of PyPI's wheel; `sm`, `ptx` and `conda_sm` list capabilities by build (cu118).

    `unverified` names what was read nowhere: `default`, `builds`, `sm`, `sm:BUILD` or `all`.
    """

    python: Texts
    default: str
    builds: Texts
    unlisted_builds: Texts = ()
    conda_builds: Texts = ()
    sm: dict[str, Numbers] = Field({})
    ptx: dict[str, Numbers] = Field({})
    conda_sm: dict[str, Numbers] = Field({})
    cudnn: dict[str, str | Texts] = Field({})
    unverified: Texts = ()


class TorchStandard(Needs):
    cxx_works: str = ""
    gcc_min_unverified: bool = False


class TorchGlibc(Needs):
    """The glibc that wheels need. Empty `builds` stand for all builds."""

    builds: Texts = ()


class TorchPythons(Fact):
    ranges: tuple[Needs, ...]


class GccMost(Span):
    cuda: dict[str, str]


class CppExtension(Fact):
    """The compilers of torch's cpp_extension. `gcc_below`: by CUDA minor, the bounds of one or several releases."""

    gcc_most: tuple[GccMost, ...]
    gcc_min: str
    gcc_below: dict[str, Numbers]


class TorchTriton(Span):
    triton: str
    runs: Texts = ()


class TorchBuildFacts(Fact):
    cxx_standard: tuple[TorchStandard, ...]
    python_support: TorchPythons
    glibc: tuple[TorchGlibc, ...]
    cpp_extension: CppExtension
    nvrtc: tuple[Needs, ...]
    triton: tuple[TorchTriton, ...]
    lowest_gpu: dict[str, CapabilityMin]
    elsewhere: tuple[Span, ...]
    cudnn_same: Span
    cudnn_static: Span


class TorchvisionRelease(Fact):
    """`torch_series` are the minors it belongs to; `torch` is the release that its wheel was made for."""

    python: Texts
    torch_series: tuple[str | None, ...] | None
    torch: str = ""


class TvmPythons(Fact):
    """`hard`: the package refuses other versions."""

    min: str
    max: str = ""
    hard: bool = False


class TvmRelease(Fact):
    """A release. `llvm_handled` is the highest LLVM major that its source tests for."""

    python: TvmPythons
    wheel: bool = False
    llvm_min: str = ""
    llvm_recommended: int = 0
    llvm_handled: int | None
    cmake_min: str | None
    gcc_min: str | None = None
    cxx: str = ""
    unverified: bool = False


class TvmLlvm(Span):
    llvm_from: str
    llvm_to: str = ""


class TvmCmake(Needs):
    needs: str


class TvmPypi(Fact):
    versions: Texts
    glibc: str


class TvmFacts(Fact):
    releases: dict[str, TvmRelease]
    llvm_fails: tuple[TvmLlvm, ...]
    cmake: tuple[TvmCmake, ...]
    llvm_off: Span
    cuda_off: Span
    pypi: TvmPypi


class Accepts(Span):
    """The versions of another package that a range of releases requires, as pip writes them."""

    spec: str


class TransformersFacts(Table[Fact]):
    """`accepts`: the tokenizers that a range of releases requires."""

    versions: Texts
    accepts: tuple[Accepts, ...]
    python: tuple[Needs, ...]
    torch: tuple[Needs, ...]


class WheelRelease(Fact):
    """Wheels; with `abi3` also for later Pythons. `torch`, `requires`: as pip writes them; `runs`: other torch.
    `cuda`: the CUDA of the libraries in PyPI's wheel."""

    python: Texts = ()
    abi3: bool = False
    torch: str = ""
    runs: Texts = ()
    cuda: Texts = ()
    requires: dict[str, str] = Field({})
