"""The facts, typed: one attribute a file of `facts/`, read and validated when a rule first asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from reprokit.compat import package_schema as packages
from reprokit.compat import schema

T = TypeVar("T")

FOLDER = Path(__file__).parent / "facts"


class _FactFile(Generic[T]):
    """An attribute that holds the content of the file of the same name."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, facts: Facts, owner: type) -> T:
        value = TypeAdapter(self.kind).validate_python(read(self.name))
        facts.__dict__[self.name] = value  # from now on the attribute itself is found
        return value


class Facts:
    """Each attribute raises pydantic's ValidationError where its file does not follow the schema."""

    apis = _FactFile(dict[str, dict[str, schema.Api]])
    cmake = _FactFile(schema.CmakeFacts)
    cuda = _FactFile(schema.CudaFacts)
    cudnn = _FactFile(schema.CudnnFacts)
    cutlass = _FactFile(packages.CutlassFacts)
    dgl = _FactFile(packages.DglFacts)
    distros = _FactFile(schema.DistroFacts)
    flash_attn = _FactFile(packages.FlashAttentionFacts)
    gcc = _FactFile(schema.GccFacts)
    gpus = _FactFile(schema.GpuFacts)
    images = _FactFile(schema.ImageFacts)
    llvm = _FactFile(packages.LlvmFacts)
    numpy = _FactFile(packages.NumpyFacts)
    projects = _FactFile(packages.ProjectFacts)
    python = _FactFile(schema.Releases)
    sources = _FactFile(dict[str, str])
    torch = _FactFile(packages.TorchFacts)
    torch_build = _FactFile(packages.TorchBuildFacts)
    torchvision = _FactFile(packages.TorchvisionFacts)
    transformers = _FactFile(packages.TransformersFacts)
    tvm = _FactFile(packages.TvmFacts)

    def __init__(self) -> None:
        self._derived: dict[str, Any] = {}

    def derived(self, name: str, make: Callable[[Facts], T]) -> T:
        """What `make` derives from the facts, kept under `name` so that it is derived once."""
        if name not in self._derived:
            self._derived[name] = make(self)
        found: T = self._derived[name]
        return found

    def cite(self, source: str) -> str:
        """The citation behind an id of sources.yaml; the id itself where it has none."""
        return self.sources.get(source, source)


def read(name: str) -> Any:
    """The content of `facts/NAME.yaml` as plain values."""
    import yaml

    # The C loader reads all files in 40 ms, the Python one in 700 ms.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (FOLDER / f"{name}.yaml").open(encoding="utf-8") as file:
        return yaml.load(file, loader)


@lru_cache(maxsize=1)
def bundled() -> Facts:
    """The facts that come with reprokit, shared by the process."""
    return Facts()
