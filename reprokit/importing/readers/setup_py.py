"""`setup.py`, by its syntax tree. Nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from packaging.utils import canonicalize_name

from reprokit.importing.model import Scope, SourceFile, Statements, scope_of_group
from reprokit.importing.readers.code import import_statements
from reprokit.importing.readers.ini_files import classifier
from reprokit.importing.requirement_lines import valid_requirement

_DEPTH = 40
_UNKNOWN = object()
_STEPS = 20_000


class Module:
    """A parsed module. Raises ValueError for text that is not Python, or that is nested too deeply."""

    def __init__(self, text: str) -> None:
        try:
            self._tree = ast.parse(text)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"not valid Python 3: {error.args[0] if error.args else error!r}") from None
        # A name that is assigned in several branches has all their values.
        self._names: dict[str, list[ast.expr]] = {}
        self._added: dict[str, list[ast.expr]] = {}
        self.conditional: list[ast.expr] = []
        self._functions: dict[str, ast.AST] = {}
        self._opened: dict[ast.expr, list[ast.expr]] = {}  # by value read from a file, the calls that open the file
        self._steps = 0
        self._versioned: dict[str, str] | None = None
        optional = set(_under_features(self._tree))
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._names.setdefault(target.id, []).append(node.value)
                    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                        self._add(target.value.id, ast.Dict([target.slice], [node.value]))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self._names.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._add(node.target.id, node.value, node in optional)
            elif isinstance(node, ast.FunctionDef):
                self._functions.setdefault(node.name, node)
            elif isinstance(node, ast.With):
                self._open(node)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and node.args and node.func.attr in ("append", "extend", "update"):
                    self._add(owner.id, node.args[0], node in optional)

    def _add(self, name: str, value: ast.expr, optional: bool = False) -> None:
        if optional:
            self.conditional.append(value)
        else:
            self._added.setdefault(name, []).append(value)

    def _open(self, block: ast.With) -> None:
        opened = {i.optional_vars.id: i.context_expr for i in block.items if isinstance(i.optional_vars, ast.Name)}
        for assigned in (node for node in block.body if isinstance(node, ast.Assign)):
            used = {n.id for n in ast.walk(assigned.value) if isinstance(n, ast.Name)}
            self._opened[assigned.value] = [opener for name, opener in opened.items() if name in used]

    def calls(self, name: str) -> Iterator[ast.Call]:
        """The calls of a function of this name, also as an attribute, in the order of `ast.walk`."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                called = node.func
                if (isinstance(called, ast.Name) and called.id == name) or (
                    isinstance(called, ast.Attribute) and called.attr == name
                ):
                    yield node

    def uses(self, name: str) -> Iterator[ast.expr]:
        """Every use of a name, called or not, except its import."""
        for node in ast.walk(self._tree):
            if (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)) or (
                isinstance(node, ast.Attribute) and node.attr == name
            ):
                yield node

    def constants(self) -> Iterator[tuple[str, int]]:
        """Every text of the module with its line."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, node.lineno

    def value(self, node: ast.expr, depth: int = 0) -> object:
        """The literal value of an expression; `_UNKNOWN` for anything computed."""
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            return _UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            values = (self.value(behind, depth + 1) for behind in self._names.get(node.id, ()))
            return next((value for value in values if value is not _UNKNOWN), _UNKNOWN)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            return left + right if isinstance(left, str) and isinstance(right, str) else _UNKNOWN
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(v.value if isinstance(v, ast.FormattedValue) else v, depth + 1) for v in node.values]
            return "".join(map(str, parts)) if _UNKNOWN not in parts else _UNKNOWN
        return _UNKNOWN

    def texts(self, node: ast.expr, depth: int = 0) -> Iterator[tuple[str, int]]:
        """The texts of a list, tuple, set or name of one, with their lines."""
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            return
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            for element in node.elts:
                inner = element.value if isinstance(element, ast.Starred) else element
                yield from self.texts(inner, depth + 1)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and not isinstance(self.value(node), str):
            left = list(self.texts(node.left, depth + 1))
            right = list(self.texts(node.right, depth + 1))
            # `deps["x"] + "; marker"` is one text.
            if len(left) == len(right) == 1 and right[0][0].lstrip().startswith(";"):
                yield left[0][0] + right[0][0], left[0][1]
            else:
                yield from (text for text in (*left, *right) if not text[0].lstrip().startswith(";"))
        elif isinstance(node, ast.Name):
            # Any branch may run; take the first that is not empty.
            branches = (list(self.texts(behind, depth + 1)) for behind in self._names.get(node.id, ()))
            yield from next(filter(None, branches), [])
            for added in self._added.get(node.id, ()):
                yield from self.texts(added, depth + 1)
        elif isinstance(node, ast.IfExp):
            yield from self.texts(node.body, depth + 1)
        elif isinstance(node, ast.Subscript):
            key = self.value(node.slice)
            values = [inner for member, inner in self.items(node.value, depth + 1) if member == key]
            for inner in values:
                yield from self.texts(inner, depth + 1)
            if not values and isinstance(key, str) and (text := self._requirements().get(canonicalize_name(key))):
                yield text, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # A function of the module that picks requirements by their names.
            for argument in node.args:
                name = self.value(argument)
                if isinstance(name, str) and (text := self._requirements().get(canonicalize_name(name))):
                    yield text, node.lineno
        elif isinstance(value := self.value(node), str):
            yield value, node.lineno

    def items(self, node: ast.expr, depth: int = 0) -> list[tuple[str, ast.expr]]:
        """The text keys and the values of a dict, of `dict(...)`, or of a name of a dict."""
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            return []
        items: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    items += self.items(value, depth + 1)
                elif isinstance(name := self.value(key), str):
                    items.append((name, value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            items += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
        elif isinstance(node, ast.Name):
            branches = (self.items(behind, depth + 1) for behind in self._names.get(node.id, ()))
            items += next(filter(None, branches), [])
            for added in self._added.get(node.id, ()):
                items += self.items(added, depth + 1)
        return items

    def _requirements(self) -> dict[str, str]:
        """Every text of the module that is a requirement with a version, by its project."""
        if self._versioned is None:
            self._versioned = {}
            for node in _stated(self._tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                    requirement = valid_requirement(node.value)
                    if requirement and (requirement.specifier or requirement.name not in self._versioned):
                        self._versioned[canonicalize_name(requirement.name)] = node.value
        return self._versioned

    def complete(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether `texts` returns every possible text of the expression."""
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            return False
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return all(self.complete(e.value if isinstance(e, ast.Starred) else e, depth + 1) for e in node.elts)
        if isinstance(node, ast.BinOp):
            return self.complete(node.left, depth + 1) and self.complete(node.right, depth + 1)
        if isinstance(node, ast.Name):
            values, added = self._names.get(node.id, []), self._added.get(node.id, [])
            return len(values) == 1 and all(self.complete(n, depth + 1) for n in (*values, *added))
        if isinstance(node, ast.IfExp):
            return self.complete(node.body, depth + 1)
        if isinstance(node, ast.Subscript):
            return bool(self.items(node.value)) and isinstance(self.value(node.slice), str)
        return self.value(node) is not _UNKNOWN

    def strings_behind(self, node: ast.AST, depth: int = 0) -> Iterator[tuple[str, int]]:
        """The texts in an expression, in the values of its names, and in the functions that it calls."""
        for inner in ast.walk(node):
            self._steps += 1
            if self._steps > _STEPS:
                return
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.value, inner.lineno
            elif isinstance(inner, ast.Name) and depth < 4:
                function = self._functions.get(inner.id)
                values = self._names.get(inner.id, [])
                opened = [opener for value in values for opener in self._opened.get(value, ())]
                for behind in (*values, *opened, *([function] if function else ())):
                    if behind is not node:
                        yield from self.strings_behind(behind, depth + 1)


# Names in conditions on Python or the system; other conditions are on a feature.
_PLATFORM = {"sys", "platform", "version_info", "python_version", "PY2", "PY3", "__name__"}


def _under_features(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run only with an optional feature: `if with_mpi():`, but not `if not on_rtd:`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, (ast.Call, ast.Name, ast.Attribute)):
            names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
            if not names & _PLATFORM:
                for statement in node.body:
                    yield from ast.walk(statement)


def _stated(tree: ast.AST) -> Iterator[ast.AST]:
    """Members of lists and dicts, and values of names. Keys and arguments state nothing: `needed["numpy"]`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            yield from node.elts
        elif isinstance(node, ast.Dict):
            yield from (value for value in (*node.keys, *node.values) if value)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            yield node.value


_TEXTS = {"name": "project", "version": "version", "license": "licence", "python_requires": "python"}
_LISTS: dict[str, Scope | None] = {"install_requires": None, "requires": None, "setup_requires": "build",
                                   "tests_require": "test"}  # fmt: skip
_EXTENSIONS = {"CUDAExtension": "torch-cuda", "CppExtension": "torch", "Extension": "c", "cythonize": "cython",
               "Pybind11Extension": "pybind11", "CMakeExtension": "cmake", "RustExtension": "rust",
               "cffi_modules": "cffi"}  # fmt: skip
_CHOSEN = ("CUDAExtension", "CppExtension")
# Calls whose first argument is not a module name.
_UNNAMED = ("cythonize", "cffi_modules")


def read(file: SourceFile) -> Statements:
    for statement in import_statements(file):
        yield replace(statement, scope="build")
    module = Module(file.text)
    for call in module.calls("setup"):
        # `setup(**kwargs)` with a dict of the module.
        keywords = [(k.arg, k.value) for k in call.keywords if k.arg]
        for unpacked in (k.value for k in call.keywords if k.arg is None):
            keywords += module.items(unpacked)
        if not any(key == "name" for key, _ in keywords):
            yield file.states("project", "", call.lineno)
        for key, value in keywords:
            yield from _keyword(file, module, key, value)
    for added in module.conditional:
        for text, line in module.texts(added):
            if valid_requirement(text):
                yield file.states("package", text, line, "other")
    for text, line in module.constants():
        # The script checks for these before it compiles: headers, and programs that print a library's flags.
        if text.endswith((".h", "-config", "_config")) and " " not in text:
            yield file.states("library", text, line)
        elif "-fopenmp" in text:
            yield file.states("library", "OpenMP", line)
    for name, extension in _EXTENSIONS.items():
        # `kind = CUDAExtension if with_cuda else CppExtension` calls neither by its name.
        for use in module.uses(name) if name in _CHOSEN else module.calls(name):
            yield file.states("extension", extension, use.lineno)
        for call in module.calls(name):
            yield from _extension(file, module, call, name)


def _extension(file: SourceFile, module: Module, call: ast.Call, kind: str) -> Statements:
    """The module that an extension becomes, and the libraries that it is linked with."""
    for keyword in call.keywords:
        for text, line in module.texts(keyword.value) if keyword.arg == "libraries" else ():
            yield file.states("library", text, line)
    named = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
    for value in named if kind not in _UNNAMED else ():
        if isinstance(own := module.value(value), str):
            # An extension for CUDA is not built everywhere.
            yield file.states("module", own.partition(".")[0], call.lineno, "other" if "CUDA" in kind else "build")


def _keyword(file: SourceFile, module: Module, key: str, value: ast.expr) -> Statements:
    if key in _TEXTS:
        text = module.value(value)
        if isinstance(text, str):
            yield file.states(_TEXTS[key], text, value.lineno)  # type: ignore[arg-type]
        elif key == "name":
            yield file.states("project", "", value.lineno)  # a project whose name is computed
        elif key == "python_requires":
            yield file.states("unread", "python_requires is computed", value.lineno)
    elif key == "classifiers":
        for text, line in module.texts(value):
            yield from classifier(file, text, line)
    elif key in _LISTS:
        yield from _requirements(file, module, key, value, _LISTS[key])
    elif key == "extras_require":
        items = module.items(value)
        for extra, inner in items:
            yield from _requirements(file, module, f"extra {extra}", inner, scope_of_group(extra))
        if not items:
            yield file.states("unread", "extras_require is computed", value.lineno)
    elif key in ("packages", "py_modules") and module.complete(value):
        for text, line in module.texts(value):
            yield file.states("module", text.partition(".")[0], line)
    elif key in ("ext_modules", "cffi_modules"):
        yield file.states("extension", "c" if key == "ext_modules" else "cffi", value.lineno)


def _requirements(file: SourceFile, module: Module, key: str, value: ast.expr, scope: Scope | None) -> Statements:
    stated = list(module.texts(value))
    for text, line in stated:
        for part in text.splitlines():
            if part.strip() and not part.strip().startswith("#"):
                yield file.states("package", part, line, scope)
    if module.complete(value):
        return
    # A computed list mostly comes from a file that the expression, or a function that it calls, names.
    names = [(text, line) for text, line in module.strings_behind(value) if text.endswith((".txt", ".in"))]
    for name, line in names:
        yield file.states("include", f"-r {name}", line, scope)
    if not names and not stated:
        yield file.states("unread", f"{key} is computed", value.lineno, scope)
