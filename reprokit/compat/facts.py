"""The facts folder, read file by file when a rule first asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

FOLDER = Path(__file__).parent / "facts"


class Facts:
    """`facts["cuda"]` is the content of `facts/cuda.yaml`; each file is read once. Raises KeyError for no such file."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, Any]] = {}
        self._derived: dict[str, Any] = {}

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in self._files:
            path = self._folder / f"{name}.yaml"
            if not path.is_file():
                raise KeyError(name)
            self._files[name] = _read(path)
        return self._files[name]

    def derived(self, name: str, make: Callable[[Facts], T]) -> T:
        """What `make` derives from the facts, kept under `name` so that it is derived once."""
        if name not in self._derived:
            self._derived[name] = make(self)
        found: T = self._derived[name]
        return found

    def cite(self, source: str) -> str:
        """The citation behind an id of sources.yaml; the id itself where it has none."""
        return str(self["sources"].get(source, source))


def _read(path: Path) -> dict[str, Any]:
    import yaml

    # The C loader reads all files in 40 ms, the Python one in 700 ms.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with path.open(encoding="utf-8") as file:
        content: dict[str, Any] = yaml.load(file, loader)
    return content


@lru_cache(maxsize=1)
def bundled() -> Facts:
    """The facts that come with reprokit, shared by the process."""
    return Facts()
