"""Interface histories: which releases of a package have a public name.

`make interfaces` writes `facts/interfaces/PACKAGE.xz`, text compressed by LZMA, from published wheels. The first line
lists the releases that were read, oldest first. Each other line is `PARENT FIRST LAST NAME...`, for names that some
releases lack:

| PARENT | NAMES |
|---|---|
| `numpy.linalg` | what the module has: submodules, classes, functions, values |
| `:` | classes, functions as `load()`, symbols of CUDA's headers |
| `:Tensor` | methods and attributes of the class |
| `:load()`, `:Tensor.view()` | keyword arguments of the function; `:Tensor()` has those of the class |

A name has no line if its range is that of its parent.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from reprokit.compat.version import at_most, older, parts
from reprokit.recipe.pin_names import NOT_ON_PYPI

FOLDER = Path(__file__).parent / "facts" / "interfaces"
PACKAGES = ("numpy", "torch", "jax", "dgl", "tvm", "transformers", "cuda", "llvmlite")  # by the names of their pins
_KEYWORD = re.compile(r"([\w.]+)\((\w+)=?\)")
# Messages of Python, nvcc, gcc and clang about a missing name.
_MESSAGES = [
    re.compile(pattern)
    for pattern in (
        r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'",
        r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'",
        r"No module named '(?P<module>[\w.]+)\.(?P<name>\w+)'",
        r"'(?P<owner>\w+)' (?:object )?has no attribute '(?P<name>\w+)'",
        r"(?P<owner>[\w.]+)\(\) got an unexpected keyword argument '(?P<keyword>\w+)'",
        r"identifier \"(?P<symbol>\w+)\" is undefined",
        r"\W(?P<symbol>\w+)\W (?:was not declared|has not been declared|does not name a type|undeclared)",
        r"(?:undeclared identifier|unknown type name) \W(?P<symbol>\w+)\W",
    )
]
# A class with such a name is hardly the user's own.
_DISTINCT = re.compile(r"(?=.{8})[A-Z]\w*[A-Z]\w*")


class Range(NamedTuple):
    """The releases that have a name. `first` or `last` is empty if the oldest or the newest release has it."""

    package: str
    name: str
    first: str
    last: str

    def __str__(self) -> str:
        if not self.last:
            return f"{self.name}: in {self.package} from {self.first} on"
        first = f" from {self.first}" if self.first else ""
        return f"{self.name}: in {self.package}{first} up to {self.last}, not since"

    def has(self, version: str) -> bool:
        return not older(version, self.first) and (not self.last or at_most(version, self.last))

    def nearest(self, version: str = "") -> str:
        """The release in the range that is nearest to a version; without one, the last that has a removed name."""
        before = bool(parts(version)) and older(version, self.first)
        return self.first if before or not self.last else self.last

    def remedy(self, version: str = "") -> str:
        release = self.nearest(version)
        install = "" if self.package in NOT_ON_PYPI else f": pip install '{self.package}=={release}.*'"
        return f"pin {self.package} {release}{install}"


def history(package: str, name: str) -> Range | None:
    """The range of a name such as `numpy.float`, `Tensor.solve`, `load(mmap)` or `cudaThreadSynchronize`.

    The package's own name may be left out. None if the table has no such name, or all releases have it.
    """
    if package not in PACKAGES:
        return None
    if match := _KEYWORD.fullmatch(name):
        return _row(package, f":{match[1].removesuffix('.__init__')}()", match[2], name)
    parent, _, child = name.rpartition(".")
    for each in (parent, f"{package}.{parent}", f":{parent}") if parent else (package, ":"):
        if span := _row(package, each, child, name):
            return span
    return None


def of_message(text: str, named: Iterable[str] = ()) -> Range | None:
    """The history of the name that a message says is missing. `named` are packages that the log or the recipe names.

    Methods and keyword arguments come without a module, so only packages of `named` are searched for them, and all if
    the name of the class is long. A message that fits two packages has no answer.
    """
    match = next(filter(None, (pattern.search(text) for pattern in _MESSAGES)), None)
    if match is None:
        return None
    groups = match.groupdict()
    if symbol := groups.get("symbol"):
        return history("cuda", symbol)
    if module := groups.get("module"):
        return history(module.partition(".")[0], f"{module}.{groups['name']}")
    owner = groups["owner"]
    name = f"{owner}({groups['keyword']})" if "keyword" in groups else f"{owner}.{groups['name']}"
    searched = PACKAGES if _DISTINCT.fullmatch(owner.partition(".")[0]) else set(named) & {*PACKAGES}
    spans = [span for package in searched if (span := history(package, name))]
    return spans[0] if len(spans) == 1 else None


def _row(package: str, parent: str, child: str, name: str) -> Range | None:
    oldest, newest, rows = _table(package)
    for first, last, names in rows.get(parent, ()):
        if f" {child} " in names:
            return Range(package, name, first if first != oldest else "", last if last != newest else "")
    return None


@cache
def _table(package: str) -> tuple[str, str, Mapping[str, list[tuple[str, str, str]]]]:
    """The oldest and the newest release, and by parent the first and last release of names between blanks."""
    head, *lines = lzma.decompress((FOLDER / f"{package}.xz").read_bytes()).decode().splitlines()
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for line in lines:
        parent, first, last, names = line.split(" ", 3)
        rows.setdefault(parent, []).append((first, last, f" {names} "))
    releases = head.split()
    return releases[0], releases[-1], rows
