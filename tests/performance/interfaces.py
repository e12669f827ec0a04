"""Write `reprokit/compat/facts/interfaces`: which releases of a package have which public names.

The last release of each minor version is read from its wheel; of jax, whose minor versions last a year, each release,
from an sdist if it has no wheel. Only a wheel's list of files and the ranges with Python sources, stubs and headers are
downloaded. TVM has no wheels before 0.25: `--tvm` names a clone with its tags. Sources are parsed, never run.
"""

from __future__ import annotations

import argparse
import ast
import io
import lzma
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprokit.compat.interfaces import FOLDER
from reprokit.compat.version import key, series
from reprokit.supply.fetch.http import Client
from reprokit.supply.kinds.wheels.listing import ListedFile, Listing
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store

# Projects on the package index by the package that they are.
PROJECTS = {
    "numpy": ["numpy"],
    "torch": ["torch"],
    "jax": ["jax"],
    "dgl": ["dgl"],
    "tvm": ["apache-tvm"],
    "transformers": ["transformers"],
    "cuda": ["nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"],
    "llvmlite": ["llvmlite"],
}
EVERY_RELEASE = ("jax",)
# Releases before are of another product, or no Python 3 reads them.
OLDEST = {"numpy": "1.10", "transformers": "2.0", "dgl": "0.1", "jax": "0.1.50", "llvmlite": "0.17"}
# The first release with stubs: a name of its compiled modules that is first found there may be older.
STUBS_FROM = {"numpy": ("1.16", "1.20"), "torch": ("1.1",)}
_SKIPPED = re.compile(r"/(?:tests?|testing/_internal|_inductor|_vendor|_vendored|conftest\.py|setup\.py)(?:/|$)")
# Hundreds of models have the same methods: of their modules only the names are read, without parsing.
_MODELS = re.compile(
    r"transformers/(?:models/(?!auto/)|(?:modeling|tokenization|configuration)_(?!\w*(?:utils|auto|outputs)))"
)
_MOST_FILES, _MOST_BYTES, _MOST_OF_FILE = 20_000, 400 << 20, 4 << 20
_GAP = 128 << 10  # so many bytes between two members cost less than another request
_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|\b(?:cuda|cu[A-Z]|CU|__|tex|surf|atomic)\w+", re.DOTALL
)


# Reading archives.
class RemoteFile(io.RawIOBase):
    """A file on a server that answers ranges; a small one may come complete."""

    def __init__(self, client: Client, url: str) -> None:
        self._client, self._url, self._at = client, url, 0
        self._parts: list[tuple[int, bytes]] = []
        self._size = self._load("-65536")

    def load(self, start: int, end: int) -> None:
        self._load(f"{start}-{end - 1}")

    def _load(self, span: str) -> int:
        with self._client.ask(self._url, {"Range": f"bytes={span}"}) as answer:
            place = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", ""))
            size = int(place[2] if place else answer.headers["Content-Length"])
            if answer.status not in (200, 206) or (place is None and size > 32 << 20):
                raise OSError(f"no range: HTTP {answer.status}")
            self._parts.append((int(place[1]) if place else 0, b"".join(iter(answer.read, b""))))
        return size

    def forget(self) -> None:
        del self._parts[1:]

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        for start, part in self._parts:
            if start <= self._at and end <= start + len(part):
                break
        else:
            self.load(self._at, end)
            start, part = self._parts[-1]
        data = part[self._at - start : end - start]
        self._at = end
        return data


Read = Callable[[], bytes]


def is_source(path: str, root: str) -> bool:
    if root == "cuda":
        return "/include/" in path and path.endswith((".h", ".hpp"))
    return path.startswith(f"{root}/") and path.endswith((".py", ".pyi")) and not _SKIPPED.search(path)


def wheel_sources(client: Client, url: str, root: str) -> Iterator[tuple[str, object, Read]]:
    """Path, an identity of the content, and how to read it, of each source in a wheel."""
    remote = RemoteFile(client, url)
    with zipfile.ZipFile(remote) as wheel:
        members = sorted(wheel.infolist(), key=lambda member: member.header_offset)
        ends = [member.header_offset for member in members[1:]] + [wheel.start_dir]
        chosen = [(m, end) for m, end in zip(members, ends, strict=True) if is_source(m.filename, root)]
        chosen = [(m, end) for m, end in chosen if m.file_size <= _MOST_OF_FILE][:_MOST_FILES]
        while chosen:
            start, end = chosen[0][0].header_offset, chosen[0][1]
            count = 1
            while count < len(chosen) and chosen[count][0].header_offset - end <= _GAP and end - start < 32 << 20:
                end = chosen[count][1]
                count += 1
            remote.load(start, end)
            for member, _ in chosen[:count]:
                yield member.filename, (member.CRC, member.file_size), lambda m=member: wheel.read(m)
            remote.forget()
            chosen = chosen[count:]


def tar_sources(archive: bytes, root: str) -> Iterator[tuple[str, object, Read]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            path = re.sub(r"^[^/]+/", "", member.name)
            if member.isfile() and member.size <= _MOST_OF_FILE and is_source(path, root):
                content = tar.extractfile(member).read()
                yield path, content, lambda content=content: content


# Parsing one module.
@dataclass
class Class:
    bases: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)  # `method`, `method(keyword`, `(keyword` for the constructor


# A class, the keywords of a function, where an import looks (module, name), or any other value.
Entry = Class | frozenset[str] | tuple[str, str] | None


@dataclass
class Module:
    names: dict[str, Entry] = field(default_factory=dict)
    reexported: set[str] = field(default_factory=set)  # imported as the same name
    hidden: set[str] = field(default_factory=set)  # what a stub imports for itself
    stars: list[str] = field(default_factory=list)
    exported: set[str] | None = None  # `__all__`
    exports_more: bool = False  # `__all__` is computed
    elsewhere: set[str] = field(default_factory=set)  # dotted names that the documentation of compiled code names

    def __or__(self, other: Module) -> Module:
        """A module and its stub."""
        names = {name: both(self.names.get(name), other.names.get(name)) for name in {**self.names, **other.names}}
        exported = self.exported if other.exported is None else other.exported | (self.exported or set())
        return Module(
            names,
            self.reexported | other.reexported,
            (self.hidden - other.names.keys()) | (other.hidden - self.names.keys()) | (self.hidden & other.hidden),
            self.stars + other.stars,
            exported,
            self.exports_more or other.exports_more,
            self.elsewhere | other.elsewhere,
        )


def both(one: Entry, other: Entry) -> Entry:
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one | other
    if isinstance(one, Class) and isinstance(other, Class):
        return Class(one.bases + other.bases, one.own | other.own)
    return max(one, other, key=lambda each: (isinstance(each, Class | frozenset), each is not None))


def keywords(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    return frozenset(arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)) - {"self", "cls"}


def dotted(node: ast.expr | None) -> str:
    if isinstance(node, ast.Subscript | ast.Call):
        return dotted(node.value if isinstance(node, ast.Subscript) else node.func)
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def texts(node: ast.AST | None) -> list[str]:
    """The constant strings of a list, set or tuple, or the first of each tuple in it; the keys of a table."""
    if isinstance(node, ast.Dict):
        # A table of deprecated names has None for those that are gone.
        gone = [
            isinstance(v, ast.Tuple) and isinstance(v.elts[-1], ast.Constant) and v.elts[-1].value is None
            for v in node.values
        ]
        elements: list[ast.AST | None] = [each for each, is_gone in zip(node.keys, gone, strict=True) if not is_gone]
    else:
        elements = list(getattr(node, "elts", ()))
    elements = [each.elts[0] if isinstance(each, ast.Tuple) and each.elts else each for each in elements]
    return [each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, str)]


class Parser:
    def __init__(self, module: str, is_package: bool, is_stub: bool) -> None:
        self.module, self.package = module, module if is_package else module.rpartition(".")[0]
        self.is_stub = is_stub
        self.found = Module()
        self.lists: dict[str, list[str]] = {}

    def parse(self, source: bytes) -> Module:
        if _MODELS.match(self.module.replace(".", "/")) and self.module != self.package:
            self.found.names = {
                name.decode(): None for name in re.findall(rb"^(?:class|def) (\w+)", source, re.MULTILINE)
            }
            exported = re.search(rb"^__all__ = [\[(]([^\])]*)", source, re.MULTILINE)
            self.found.exported = {name.decode() for name in re.findall(rb"\w+", exported[1])} if exported else None
            return self.found
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of strangers' code
            tree = ast.parse(source)
        self.visit(tree.body)
        if self.is_stub:
            self.found.hidden = {
                name
                for name, entry in self.found.names.items()
                if name.startswith("_") or (isinstance(entry, tuple) and name not in self.found.reexported)
            } - (self.found.exported or set())
        return self.found

    def visit(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            method = getattr(self, f"on_{type(node).__name__}", None)
            if method:
                method(node)
            else:
                for name in ("body", "handlers", "orelse", "finalbody"):
                    for each in getattr(node, name, ()):
                        self.visit(each.body if isinstance(each, ast.ExceptHandler) else [each])

    def on_ClassDef(self, node: ast.ClassDef) -> None:
        made = Class([dotted(base) for base in node.bases])
        is_data = any(dotted(each).endswith(("dataclass", "dataclass_transform")) for each in node.decorator_list)
        for each in node.body:
            for member in each.body + each.orelse if isinstance(each, ast.If) else [each]:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    own = "" if member.name in ("__init__", "__new__") else member.name
                    made.own |= {own} | {f"{own}({keyword}" for keyword in keywords(member)}
                for name in assigned(member):
                    made.own |= {name, f"({name}"} if is_data and isinstance(member, ast.AnnAssign) else {name}
        made.own = {own for own in made.own if own and not own.startswith("_")}
        known = self.found.names.get(node.name)
        self.found.names[node.name] = both(made, known) if isinstance(known, Class) else made

    def on_FunctionDef(self, node: ast.FunctionDef) -> None:
        known = self.found.names.get(node.name)
        self.found.names[node.name] = keywords(node) | (known if isinstance(known, frozenset) else frozenset())

    on_AsyncFunctionDef = on_FunctionDef

    def on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.found.names.pop(dotted(target), None)

    def on_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.found.names[name] = (alias.name if alias.asname else name, "")

    def on_ImportFrom(self, node: ast.ImportFrom) -> None:
        parts = self.package.split(".")
        parts = parts[: len(parts) - node.level + 1] if node.level else []
        origin = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            if alias.name == "*":
                self.found.stars.append(origin)
                continue
            name = alias.asname or alias.name
            if alias.asname == alias.name:
                self.found.reexported.add(name)
            if not (name in self.found.names and (origin, alias.name) == (self.module, name)):
                self.found.names[name] = (origin, alias.name)

    def on_Assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        for name in assigned(node):
            listed = isinstance(node.value, ast.List | ast.Tuple | ast.Set | ast.Dict)
            if name == "__all__":
                self.found.exported = (self.found.exported or set()) | set(texts(node.value))
                self.found.exports_more |= not listed
                continue
            if name not in self.found.names:
                self.found.names[name] = None
            if isinstance(node.value, ast.Name | ast.Attribute) and (target := dotted(node.value)):
                base, _, last = target.rpartition(".")
                self.found.names[name] = (f"{self.module}.{base}" if base else self.module, last)
            self.lists[name] = texts(node.value) if listed else []
            if "deprecat" in name.lower():
                self.deprecated(node.value)

    on_AnnAssign = on_AugAssign = on_Assign

    def deprecated(self, value: ast.AST | None) -> None:
        """Names that the module makes when they are asked for, with a warning."""
        if isinstance(value, ast.DictComp):
            names = self.lists.get(dotted(value.generators[0].iter), []) or texts(value.generators[0].iter)
        else:
            names = texts(value)
        for name in names:
            if name.isidentifier():
                self.found.names.setdefault(name, None)

    def on_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if not isinstance(call, ast.Call):
            return
        function, arguments = dotted(call.func), call.args
        first = arguments[0].value if arguments and isinstance(arguments[0], ast.Constant) else ""
        if function.endswith("add_docstr") and arguments and (name := dotted(arguments[0])):
            self.found.elsewhere.add(name)
        elif function == "add_docstr_all" and first:
            self.found.elsewhere.add(f"torch.Tensor.{first}")
        elif function.endswith("add_newdoc") and len(arguments) > 2 and isinstance(arguments[1], ast.Constant):
            owner = re.sub(r"\.core\.(?:multiarray|umath)$", "", str(first))
            documented = arguments[2] if isinstance(arguments[2], ast.List) else ast.List(arguments[2:3])
            # Members by name; a documentation alone is a text.
            names = ("", *(f".{name}" for name in texts(documented) if name.isidentifier()))
            self.found.elsewhere |= {f"{owner}.{arguments[1].value}{name}" for name in names}
        elif function in ("__all__.extend", "__all__.append"):
            self.found.exported = (self.found.exported or set()) | {*texts(arguments[0]), first}
            self.found.exports_more |= not first and not isinstance(arguments[0], ast.List)
        elif function.endswith(".update") and "deprecat" in function.lower() and arguments:
            self.deprecated(arguments[0])


def assigned(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return []
    flat = [each for t in targets for each in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [each.id for each in flat if isinstance(each, ast.Name)]


# From the modules of a release to its names.
def is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split(".")[1:])


class Release:
    """What one release has: dotted `names`, `classes` by name, and `functions` as `name(keyword`."""

    def __init__(self, root: str, modules: dict[str, Module], packages: set[str]) -> None:
        self.root, self.modules, self.packages = root, modules, packages
        self._bound: dict[str, set[str]] = {}
        self._starred: dict[str, set[str]] = {}
        self.names: set[str] = set()
        self.classes: dict[str, Class] = {}
        self.functions: set[str] = set()
        for module in modules:
            depth = module.count(".")
            if depth <= 2 or not is_private(module):
                self.names.add(module)
            if depth <= 1 or not is_private(module):
                self._add(module, depth)
        for name in set().union(*(module.elsewhere for module in modules.values())):
            owner, _, last = name.rpartition(".")
            if owner in modules:
                self.names.add(name)
            elif owner.rpartition(".")[0] in modules:
                self.classes.setdefault(owner.rpartition(".")[2], Class()).own.add(last)

    def _add(self, module: str, depth: int) -> None:
        part = self.modules[module]
        for name in self.bound(module, frozenset()) - {"", self.root}:
            if name.startswith("__") or (name.startswith("_") and not (depth == 1 and is_private(module))):
                continue
            entry = part.names.get(name)
            if isinstance(entry, tuple) and depth > 1:  # what a module imports for its own use is not listed
                is_own = entry[0].partition(".")[0] == self.root
                if not is_own or not (module in self.packages or name in part.reexported or entry[0] == module):
                    continue
            self.names.add(f"{module}.{name}")
            self._define(*self.resolved(module, name), name)

    def _define(self, module: str, entry: Entry, name: str) -> None:
        if isinstance(entry, frozenset):
            self.functions |= {f"{name}({keyword}" for keyword in entry}
        elif isinstance(entry, Class):
            known = self.classes.setdefault(name, Class())
            bases = {base.rpartition(".")[2]: base for base in entry.bases}
            if entry.own <= known.own and bases.keys() <= set(known.bases):
                return
            self.classes[name] = both(known, Class(list(bases), entry.own))
            for last, base in bases.items():
                if last not in self.classes:
                    self._define(*self.resolved(module, base), last)

    def bound(self, module: str, visited: frozenset[str]) -> set[str]:
        """All names that a module binds, those of `import *` too."""
        if module in self._bound or module not in self.modules:
            return self._bound.get(module, set())
        part = self.modules[module]
        names = (part.names.keys() - part.hidden) | (part.exported or set())
        for star in set(part.stars) - visited:
            names |= self.starred(star, visited | {module})
        if not visited:
            self._bound[module] = names
        return names

    def starred(self, module: str, visited: frozenset[str]) -> set[str]:
        """The names that `from module import *` binds."""
        part = self.modules.get(module, Module())
        if part.exported is not None and not part.exports_more:
            return part.exported
        names = {name for name in self.bound(module, visited) if not name.startswith("_")}
        return (part.exported or set()) | {n for n in names if not (part.exports_more and self._is_external(part, n))}

    def _starred_once(self, module: str) -> set[str]:
        if module not in self._starred:
            self._starred[module] = self.starred(module, frozenset())
        return self._starred[module]

    def _is_external(self, part: Module, name: str) -> bool:
        entry = part.names.get(name)
        return isinstance(entry, tuple) and entry[0].partition(".")[0] != self.root

    def resolved(self, module: str, name: str, limit: int = 12) -> tuple[str, Entry]:
        """The module that defines a name, and the definition; None if it is not among the sources."""
        head, _, rest = name.partition(".")
        part = self.modules.get(module)
        if part is None or not limit:
            return module, None
        if head not in part.names:
            origins = (star for star in part.stars if head in self._starred_once(star))
            stars = (self.resolved(star, name, max(0, limit - 4)) for star in origins)
            return next((each for each in stars if each[1] is not None), (module, None))
        entry = part.names[head]
        if not isinstance(entry, tuple):
            return module, None if rest else entry
        origin, original = entry
        if f"{origin}.{original}" in self.modules:
            origin, original = f"{origin}.{original}", ""
        target = ".".join(filter(None, (original, rest)))
        return self.resolved(origin, target, limit - 1) if target else (origin, None)


def read_release(root: str, sources: Iterable[tuple[str, object, Read]], cache: dict[object, Module | None]) -> Release:
    modules: dict[str, Module] = {}
    packages, total = set(), 0
    for path, identity, read in sources:
        stem = path.rpartition(".")[0]
        is_package = stem.endswith("/__init__")
        name = stem.removesuffix("/__init__").replace("/", ".")
        if not all(part.isidentifier() for part in name.split(".")):
            continue
        if (path, identity) not in cache:
            content = read()
            total += len(content)
            if total > _MOST_BYTES:
                break
            try:
                cache[path, identity] = Parser(name, is_package, path.endswith("i")).parse(content)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                cache[path, identity] = None
        if parsed := cache[path, identity]:
            modules[name] = modules[name] | parsed if name in modules else parsed
            packages |= {name} if is_package else set()
    if functions := modules.get("torch._C._VariableFunctions"):  # torch's own functions are copies of these
        members = {own for entry in functions.names.values() if isinstance(entry, Class) for own in entry.own}
        copies = Module({name: None for name in members if "(" not in name}, stars=["torch._C._VariableFunctions"])
        modules["torch"] = modules["torch"] | copies
    return Release(root, modules, packages)


# From releases to ranges.
class History:
    """First and last release by name. Releases are added oldest first."""

    def __init__(self) -> None:
        self.releases: list[str] = []
        self.spans: dict[tuple[str, str], list[int]] = {}  # by parent and child
        self.classes: list[dict[str, Class]] = []

    def see(self, parent: str, child: str, number: int) -> None:
        span = self.spans.setdefault((parent, child), [number, number])
        span[:] = min(span[0], number), max(span[1], number)

    def add(self, label: str, release: Release) -> None:
        number = len(self.releases)
        self.releases.append(label)
        self.classes.append(release.classes)
        for name in release.names:
            self.see(*name.rpartition(".")[::2], number)
        for entry in release.functions:
            name, _, keyword = entry.partition("(")
            self.see(f":{name}()", keyword, number)
            self.see(":", f"{name}()", number)
        for name in release.classes:
            self.see(":", name, number)

    def add_symbols(self, label: str, symbols: Iterable[str]) -> None:
        self.releases.append(label)
        for symbol in symbols:
            self.see(":", symbol, len(self.releases) - 1)

    def members(self) -> None:
        """Add what classes have. A class has what its bases have, so that a method that moved there stays."""
        owned: dict[str, set[str]] = defaultdict(set)
        for classes in self.classes:
            for name, each in classes.items():
                owned[name] |= each.own
        for number, classes in enumerate(self.classes):
            whole: dict[str, set[str]] = {}
            for name in classes:
                for own in owned[name] & _inherited(name, classes, whole, frozenset()):
                    member, bracket, keyword = own.partition("(")
                    if bracket:
                        self.see(f":{name}.{member}()" if member else f":{name}()", keyword, number)
                    else:
                        self.see(f":{name}", member, number)

    def lines(self, stubs_from: tuple[str, ...] = ()) -> Iterator[str]:
        """A line for each range and parent, without names that all releases have or whose parent has the same range."""
        newest = len(self.releases) - 1
        stubs = [number for number, label in enumerate(self.releases) if label in stubs_from]
        grouped: dict[tuple[str, int, int], list[str]] = defaultdict(list)
        for (parent, child), (first, last) in self.spans.items():
            first = 0 if first in stubs else first
            owners = [self.spans[owner] for owner in _owners(parent) if owner in self.spans] or [[0, newest]]
            is_function = parent == ":" and child.endswith("()")  # found by its module
            if (
                not is_function
                and [first, last] != [0, newest]
                and (first > min(owner[0] for owner in owners) or last < max(owner[1] for owner in owners))
            ):
                grouped[parent, first, last].append(child)
        yield " ".join(self.releases)
        for (parent, first, last), children in sorted(grouped.items()):
            yield " ".join([parent, self.releases[first], self.releases[last], *sorted(children)])


def _owners(parent: str) -> list[tuple[str, str]]:
    """Parent and child of a parent: `:C.f()` belongs to f of C, `:f()` to the function f or to a class f."""
    if not parent.startswith(":"):
        return [parent.rpartition(".")[::2]]
    owner, dot, member = parent.removeprefix(":").removesuffix("()").rpartition(".")
    return [(f":{owner}", member)] if dot else [(":", member), (":", f"{member}()")]


def _inherited(name: str, classes: dict[str, Class], whole: dict[str, set[str]], visited: frozenset[str]) -> set[str]:
    if name not in whole:
        each = classes.get(name, Class())
        bases = [base for base in each.bases if base in classes and base not in visited and base != name]
        members = each.own.union(*(_inherited(base, classes, whole, visited | {name}) for base in set(bases)))
        if visited and len(bases) != len(each.bases):
            return members
        whole[name] = members
    return whole[name]


# The index.
def releases(listing: Listing, package: str) -> Iterator[tuple[str, ListedFile]]:
    """Label and file of each release to read, oldest first."""
    best: dict[object, tuple[object, str, ListedFile]] = {}
    for project in PROJECTS[package]:
        for file in listing.files(project):
            version = file.version
            if version is None or version.is_prerelease or not (file.is_wheel or package in EVERY_RELEASE):
                continue
            if key(version.base_version) < key(OLDEST.get(package, "0")):
                continue
            name = file.filename
            liked = (file.is_wheel, "x86_64" in name, "linux" in name, "-pp" not in name, name)
            group = version if package in EVERY_RELEASE else version.release[:2]
            label = version.base_version if package in EVERY_RELEASE else series(str(version))
            best[group] = max(
                best.get(group, ((), "", file)), ((version, *liked), label, file), key=lambda each: each[0]
            )
    yield from (best[group][1:] for group in sorted(best))


def read(package: str, client: Client, listing: Listing, clone: str = "") -> History:
    history, cache = History(), {}
    if clone:
        tags = subprocess.run(["git", "-C", clone, "tag"], capture_output=True, text=True, check=True).stdout.split()
        for tag in sorted((t for t in tags if re.fullmatch(r"v0\.\d+\.0", t)), key=lambda tag: key(tag[1:])):
            command = ["git", "-C", clone, "archive", "--format=tar", tag, "python/tvm"]
            archive = subprocess.run(command, capture_output=True, check=True).stdout
            history.add(series(tag[1:]), read_release(package, tar_sources(archive, package), cache))
            print(package, tag, file=sys.stderr, flush=True)
    for label, file in releases(listing, package):
        print(package, file.filename, file=sys.stderr, flush=True)
        if label in history.releases:
            continue
        if file.is_wheel:
            sources = wheel_sources(client, file.url, package)
        else:
            sources = tar_sources(listing.content(file), package)
        if package == "cuda":
            tokens = {t for _, _, content in sources for t in _TOKENS.findall(content().decode(errors="replace"))}
            history.add_symbols(label, (token for token in tokens if token.isidentifier()))
        else:
            history.add(label, read_release(package, sources, cache))
    history.members()
    return history


def write(folder: Path, package: str, history: History) -> None:
    folder.mkdir(exist_ok=True)
    text = "\n".join(history.lines(STUBS_FROM.get(package, ()))) + "\n"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    (folder / f"{package}.xz").write_bytes(lzma.compress(text.encode(), filters=filters))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=[], choices=[*PROJECTS, []])
    parser.add_argument("--tvm", default="", help="a clone of TVM with its tags")
    arguments = parser.parse_args()
    mirrors = Mirrors(Store())
    with Client(mirrors.settings) as client:
        for package in arguments.packages or PROJECTS:
            clone = arguments.tvm if package == "tvm" else ""
            write(FOLDER, package, read(package, client, Listing(mirrors), clone))


if __name__ == "__main__":
    main()
