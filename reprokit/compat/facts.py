"""The facts, typed: an attribute for each file of `facts/`, read and validated at first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter

from reprokit.compat import schema
from reprokit.recipe import yaml

T = TypeVar("T")

FOLDER = Path(__file__).parent / "facts"


class Facts:
    """Each attribute raises pydantic's ValidationError if its file does not follow the schema."""

    apis: dict[str, dict[str, schema.Api]]
    clashes: tuple[schema.Clash, ...]
    cmake: schema.CmakeFacts
    cuda: schema.CudaFacts
    cudnn: schema.CudnnFacts
    cutlass: schema.CutlassFacts
    dgl: schema.DglFacts
    distros: schema.DistroFacts
    flash_attn: schema.FlashAttentionFacts
    frameworks: dict[str, tuple[schema.FrameworkBuild, ...]]
    gcc: schema.GccFacts
    glibc: dict[str, tuple[schema.Needs, ...]]
    gpus: schema.GpuFacts
    images: schema.ImageFacts
    llvm: schema.LlvmFacts
    numpy: schema.NumpyFacts
    peaks: schema.PeakFacts
    projects: dict[str, schema.BareProject]
    python: schema.Releases
    released: schema.ReleaseDates
    sources: dict[str, str]
    torch: schema.Table[schema.TorchRelease]
    torch_build: schema.TorchBuildFacts
    torchvision: schema.Table[schema.TorchvisionRelease]
    transformers: schema.TransformersFacts
    tvm: schema.TvmFacts
    wheels: dict[str, schema.Table[schema.WheelRelease]]

    def __init__(self) -> None:
        self._derived: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Read a file, and keep it as an attribute."""
        if name not in (types := _kinds()):
            raise AttributeError(name)
        setattr(self, name, TypeAdapter(types[name]).validate_python(read(name)))
        return self.__dict__[name]

    def derived(self, name: str, make: Callable[[Facts], T]) -> T:
        """The result of `make(self)`, cached under `name`."""
        if name not in self._derived:
            self._derived[name] = make(self)
        value: T = self._derived[name]
        return value

    def package(self, name: str) -> schema.PackageFacts:
        """The requirements of a PyPI package's releases, from `facts/requires/NAME.yaml`; empty without that file."""
        file = f"requires/{name}"
        return self.derived(f"package {name}", lambda _: schema.PackageFacts.model_validate(read(file, {})))

    def cite(self, source: str) -> str:
        """The citation of an id of sources.yaml; the id itself if it has none."""
        return self.sources.get(source, source)


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(Facts)


def read(name: str, missing: Any = None) -> Any:
    """The content of `facts/NAME.yaml` as plain values; `missing`, if given, without that file."""
    file = FOLDER / f"{name}.yaml"
    if missing is not None and not file.exists():
        return missing
    return yaml.read(file.read_text(encoding="utf-8"), file.name).data


@lru_cache(maxsize=1)
def bundled() -> Facts:
    """The facts that come with reprokit, shared by the process."""
    return Facts()
