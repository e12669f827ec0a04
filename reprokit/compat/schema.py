"""The schema of the facts on toolkits, GPUs and distributions; `package_schema` has that of packages.

Capabilities are numbers without the dot, such as 86; versions are strings. Every fact lists its sources by their id in
`sources.yaml`. A key that is neither a field here nor in `REFERENCE` is an error, so that a misspelt fact is noticed.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reprokit.compat.version import at_most, key

Texts = tuple[str, ...]
Numbers = tuple[int, ...]

# What no rule reads: notes, and what was found beside the facts.
_REFERENCE = """
abi apt_llvm_org_note apt_llvm_used_by_upstream arch_list_rule build build_archs build_from_source ci_llvm conda
confirmed_by_users cuda10_on_pypi cuda_major_mismatch cuda_max cuda_recommended cuda_tensor_core cudnn_note
cudnn_unverified cutlass cxx11_abi debian debian_note default device_code_note doc_states driver_note
driver_unverified effective_rule fa3 families families_note first_for_capability first_pypi_default_with_native_sm
flavours gcc_alternatives gcc_below_note gcc_min_centos gcc_note glibc_note glibc_others gone gone_note has_cuda
has_cudnn host_gcc huggingface_hub_below huggingface_hub_works image_unverified last_in last_note last_pip
last_published last_setuptools llvm llvm_rule measured missing modeling_bert ninja_min ninja_note not_live_checked
note notes other_packages package platform policy prereleases projects_note pypi pypi_cuda_note pypi_pins
python_docs python_note pytorch rebuild_path removed repositories requires_python rules since sizes_mb sm_max_cuda
sm_specific source_build_archs source_capabilities source_capability source_clang source_debian source_glibcxx
source_pypi_cuda source_python_docs source_python_note suite tag_pattern torch_jit torch_note torch_unverified
ubuntu unverified unverified_fields wheel_compiler wheel_index wheel_tag wheel_vs_conda_sm
"""
REFERENCE = frozenset(_REFERENCE.split())


class Fact(BaseModel):
    """A mapping in a file of facts. `source` lists ids of `sources.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    source: Texts = ()

    @model_validator(mode="before")
    @classmethod
    def _without_reference(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items() if name in cls.model_fields or name not in REFERENCE}


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


class Needs(Span):
    """What a range of releases needs of other software; empty where nothing is known."""

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
    max_by_release: dict[str, str] = {}

    def newest(self, cuda: str) -> str:
        return self.max_by_release.get(cuda, self.max)


class Toolkit(Fact):
    """A minor release of CUDA. `sm` are the capabilities that its nvcc compiles for."""

    driver_min: str | None
    driver_by_release: dict[str, str]
    family_driver_min: str | None
    sm: Numbers
    sm_unverified: Numbers = ()
    gcc: CompilerLimits
    clang: CompilerLimits
    image_ubuntu: Texts = ()
    image_ubuntu_unverified: Texts = ()
    source_sm: Texts
    source_host: Texts
    source_image: Texts


class Caution(Fact):
    """Trouble with compilers that the toolkit accepts."""

    releases: Texts
    gcc_from: str
    gcc_below: str
    severity: Literal["warning", "info"]
    text: str


class Renumbered(Fact):
    old: str
    new: str


class NeverReleased(Fact):
    release: str
    text: str


class CudaFacts(Fact):
    toolkits: dict[str, Toolkit]
    cautions: tuple[Caution, ...]
    last_for_capability: dict[str, str]
    renumbered: tuple[Renumbered, ...]
    never_released: tuple[NeverReleased, ...]


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


class CudnnFacts(Fact):
    in_nvidia_images: CudnnImages
    pypi: tuple[CudnnPackage, ...]
    debian: tuple[CudnnPair, ...]


class CudaPackage(Fact):
    cuda: str


class Distro(Fact):
    """A release of a distribution. Without `gcc_available` its compilers were not listed."""

    codename: str
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


class GccGlibcxx(Fact):
    gcc: str
    glibcxx: str


class Deadsnakes(Fact):
    family: str
    text: str


class DistroFacts(Fact):
    distros: dict[str, Distro]
    glibcxx_by_gcc: tuple[GccGlibcxx, ...]
    deadsnakes: Deadsnakes


class GccFacts(Fact):
    releases: Texts
    clang: Texts


class GpuGroup(Fact):
    """GPUs of one capability and product line. `unverified`: no list of NVIDIA names them."""

    cc: str
    line: str
    names: Texts
    aliases: dict[str, str] = {}
    unverified: bool = False


class GpuFacts(Fact):
    capabilities: Texts
    tegra: Texts
    groups: tuple[GpuGroup, ...]


class CudaImage(Fact):
    """The tags of nvidia/cuda for one release. `cudnn_tag` is how tags name cuDNN, None where none has it."""

    ubuntu: Texts
    ubuntu_without_cudnn: Texts = ()
    cudnn_tag: str | None
    cudnn_tag_unverified: bool = False
    cudnn: str | None
    cudnn_by_ubuntu: dict[str, str] = {}


class DeletedImages(Fact):
    versions: Texts
    last_listed: str = ""


class CudaImages(Fact):
    listed: dict[str, CudaImage]
    deleted: tuple[DeletedImages, ...]


class ImageFacts(Fact):
    nvidia_cuda: CudaImages


class Releases(Fact):
    releases: Texts
