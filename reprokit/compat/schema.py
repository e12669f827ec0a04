"""The schema of the facts on toolkits, GPUs and distributions; `package_schema` has that of packages.

Capabilities are numbers without the dot, such as 86; versions are strings. `source` lists ids of `sources.yaml`. Keys
without a field are for readers; tests/compat/test_facts.py lists them against misspelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Literal, TypeVar

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
    """What a range of releases needs of other software; empty if nothing is known."""

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
    """An API: the releases that lack it, in which its meaning changed, or in which it was tried."""

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

    On the capabilities of `libraries_fail` kernels run, but its cuBLAS and cuDNN fail; on those of `cufft_fails` only
    its cuFFT fails.
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
    """`built` is the CUDA that releases are built with. `cuda` and `cudnn` are ranges of what they load, as for pip.

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
        """Whether it is known which CUDA it packages, if any."""
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
