"""The schema of the facts.

Capabilities are numbers without the dot, such as 86; versions are strings. `source` lists ids of `sources.yaml`. Keys
without a field are for readers; tests/compat/test_facts.py lists them against misspelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from packaging.specifiers import SpecifierSet
from pydantic import ConfigDict, Field

from reprokit.compat.version import at_most, key
from reprokit.untrusted.model import FrozenModel

Texts = tuple[str, ...]
Numbers = tuple[int, ...]


class Fact(FrozenModel):
    """A mapping in a file of facts. `source` lists ids of `sources.yaml`."""

    model_config = ConfigDict(extra="allow")
    source: Texts = ()


class Span(Fact):
    """A range of releases: `from` and `to` inclusive (a short `to` means its whole series), `below` exclusive."""

    first: str = Field("", alias="from")
    to: str = ""
    below: str = ""
    text: str = ""

    def covers(self, version: str) -> bool:
        if (self.first and key(version) < key(self.first)) or (self.below and key(version) >= key(self.below)):
            return False
        return not self.to or at_most(version, self.to)


_AnySpan = TypeVar("_AnySpan", bound=Span)


def rows_for(rows: Iterable[_AnySpan], version: str) -> Iterator[_AnySpan]:
    """The rows for a release."""
    return (row for row in rows if row.covers(version))


class Needs(Span):
    """The other software that a range of releases needs; empty if unknown."""

    cuda_min: str = ""
    cuda_below: str = ""
    cuda_warn_below: str = ""
    torch_min: str = ""
    torch_max: str = ""
    python_min: str = ""
    python_max: str | None = None
    cmake_min: str = ""
    gcc_min: str = ""
    glibc: str = ""
    cxx: str = ""


T = TypeVar("T")


class Table(Fact, Generic[T]):
    """Facts by release."""

    releases: dict[str, T]


class Api(Fact):
    """An API: releases that lack it, that changed its meaning, or in which it was tried."""

    removed_in: str = ""
    added_in: str = ""
    changed_in: str = ""
    fails: Texts = ()
    works: Texts = ()
    replacement: str = ""
    aliases: Texts = ()
    note: str = ""


class AffectedPin(Span):
    """Releases of another pin that a new release breaks."""

    pin: str
    numpy_below: str = ""


class Cmake4(Span):
    override: str
    pins: tuple[AffectedPin, ...]
    projects: Texts


class CmakeFacts(Fact):
    releases: Texts
    cmake4: Cmake4


class CompilerLimits(Fact):
    """The host compilers that an nvcc accepts. `max` is inclusive: `9` means all of 9.x."""

    min: str | None
    max: str
    max_by_release: dict[str, str] = Field(default={})

    def newest(self, cuda: str) -> str:
        return self.max_by_release.get(cuda, self.max)


class Toolkit(Fact):
    """A minor release of CUDA. `sm` are the capabilities that its nvcc compiles for.

    Kernels run on the capabilities of `libraries_fail`, but cuBLAS and cuDNN fail there; on those of `cufft_fails` only
    cuFFT fails.
    """

    driver_min: str | None
    driver_by_release: dict[str, str]
    family_driver_min: str | None
    sm: Numbers
    sm_unverified: Numbers = ()
    libraries_fail: Numbers = ()
    cufft_fails: Numbers = ()
    source_cufft: Texts = ()
    gcc: CompilerLimits
    clang: CompilerLimits
    image_ubuntu: Texts = ()
    image_ubuntu_unverified: Texts = ()
    source_sm: Texts
    source_libraries: Texts = ()
    source_host: Texts
    source_image: Texts


class Caution(Fact):
    """Trouble with compilers that the toolkit accepts."""

    releases: Texts
    gcc_from: str
    gcc_below: str
    severity: Literal["error", "warning", "info"]
    text: str


class Renumbered(Fact):
    old: str
    new: str


class CudaGlibc(Span):
    """Toolkits whose headers clash with those of the C library from `glibc` on."""

    glibc: str


class CudaFacts(Fact):
    toolkits: dict[str, Toolkit]
    cautions: tuple[Caution, ...]
    cxx: tuple[Needs, ...]
    glibc: tuple[CudaGlibc, ...]
    last_for_capability: dict[str, str]
    renumbered: tuple[Renumbered, ...]
    never_released: dict[str, Span]


class FrameworkBuild(Span):
    """`built` is the CUDA that releases are built with. `cuda` and `cudnn` are the version ranges that they load.

    A row with `local` is about builds with that local part, such as cuda11.cudnn86. Their PTX needs the driver
    `driver_min`. With `links`, the driver links what the toolkit compiled, and must not be older than the toolkit.
    """

    local: str = ""
    built: str
    cuda: str
    cudnn: str
    driver_min: str = ""
    links: bool = False


class CudaPackage(Fact):
    cuda: str
    host_gcc: str


class Distro(Fact):
    """A release of a distribution. `also` has the same packages; without `gcc_available` compilers were not listed."""

    codename: str
    also: Texts = ()
    glibc: str
    glibcxx_max: str | None
    gcc: str
    python: str
    cmake: str
    gcc_available: Texts = ()
    python_available: Texts = ()
    cuda_package: CudaPackage | None = None

    @property
    def packages_cuda(self) -> bool:
        """Whether the facts say which CUDA it packages, if any."""
        return "cuda_package" in self.model_fields_set


class Deadsnakes(Fact):
    family: str
    text: str


class DistroFacts(Fact):
    distros: dict[str, Distro]
    glibcxx_by_gcc: dict[str, str]
    deadsnakes: Deadsnakes


class GccFacts(Fact):
    releases: Texts
    clang: Texts


class GpuGroup(Fact):
    """GPUs of one capability and product line. `unverified`: no list of NVIDIA names them."""

    cc: str
    line: str
    names: Texts
    aliases: dict[str, str] = Field(default={})
    unverified: bool = False


class GpuFacts(Fact):
    """`last_driver`: by capability, the last branch of drivers that supports it."""

    capabilities: Texts
    last_driver: dict[str, str]
    source_last_driver: Texts
    tegra: Texts
    groups: tuple[GpuGroup, ...]


class PeakRow(Fact):
    """The data sheet of a GPU, or of the form of it whose name has all `words`. Rates in GFLOP/s and GB/s."""

    name: str
    words: Texts = ()
    cores: int
    boost_mhz: int
    memory_mhz: int = 0
    bus_bits: int = 0
    bandwidth_gbs: int = 0
    tensor_gflops: int | None = None
    source: Texts


class PeakFacts(Fact):
    gpus: tuple[PeakRow, ...]


class Releases(Fact):
    releases: Texts


class ReleaseDates(FrozenModel):
    """Dates as 2021-08-14 or 2021-08 by version; the sources of each field are beside it."""

    distro: dict[str, str]
    python: dict[str, str]
    cuda: dict[str, str]
    cudnn: dict[str, str]
    torch: dict[str, str]
    source_distro: Texts
    source_python: Texts
    source_cuda: Texts
    source_cudnn: Texts
    source_torch: Texts

    @staticmethod
    def newest(dates: dict[str, str], day: str) -> str:
        """The last version that was released by `day` (2021-08-31); empty if none was."""
        return max((v for v, date in dates.items() if date <= day[: len(date)]), key=dates.__getitem__, default="")


class CudaImage(Fact):
    """The tags of nvidia/cuda for one release. `cudnn_tag` is how tags name cuDNN, None if none has it."""

    ubuntu: Texts
    ubuntu_without_cudnn: Texts = ()
    cudnn_tag: str | None
    cudnn_tag_unverified: bool = False
    cudnn: str | None
    cudnn_by_ubuntu: dict[str, str] = Field({})


class DeletedImages(Fact):
    versions: Texts
    last_listed: str = ""


class CudaImages(Fact):
    listed: dict[str, CudaImage]
    deleted: tuple[DeletedImages, ...]


class ImageFacts(Fact):
    nvidia_cuda: CudaImages


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
    """`libraries` are the torch releases for which a DGL wheel has a library, if the wheel was read."""

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
    """The LLVM majors in an archive. `complete`: unlisted majors are absent."""

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
    """A minor release. `first_patch`: the first patch release with wheels for a Python, if not the first."""

    python: Texts
    first_patch: dict[str, str]


class NumpyFacts(Fact):
    releases: dict[str, NumpyRelease]
    projects: tuple[AffectedPin, ...]


class TorchRelease(Fact):
    """A release. `default` is the CUDA of PyPI's wheel; `sm`, `ptx` and `conda_sm` list capabilities by build (cu118).

    `unverified` names the fields without a source: `default`, `builds`, `sm`, `sm:BUILD` or `all`.
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


class PackageNeeds(Accepts):
    """The releases of another package that a range of releases requires, on these Pythons.

    With `later` the range itself has no such bound: `later` is the first release with it.
    """

    python: str = ""
    later: str = ""


class PackageWheels(Span):
    """The Pythons of a range's Linux wheels, such as cp38; with `abi3` later ones too."""

    tags: Texts
    abi3: bool = False


class PackageFacts(Fact):
    """A package. `versions`: its releases, separated by blanks; empty if another file of facts has them.

    `cuda`: the versions of CUDA whose libraries its wheels load.
    """

    versions: str = ""
    cuda: str = ""
    python: tuple[Accepts, ...] = ()
    wheels: tuple[PackageWheels, ...] = ()
    needs: dict[str, tuple[PackageNeeds, ...]] = Field({})


class Clash(Span):
    """Releases of `pin` that fail beside those of `other` from `other_from` on and before `other_below`.

    With `purposes` only for these values of `check --for`.
    """

    pin: str
    other: str
    other_from: str = ""
    other_below: str = ""
    purposes: Texts = ()


def meets(spec: str, version: str) -> bool:
    """Whether a release is within `spec`. A version of less than three numbers stands for all of its series."""
    accepted = _specifiers(spec)
    meant = (version,) if version.count(".") > 1 else (version, f"{version}.99")
    return any(accepted.contains(v, prereleases=True) for v in meant)


@lru_cache(maxsize=4096)
def _specifiers(spec: str) -> SpecifierSet:
    return SpecifierSet(spec)
