"""`setup.py`, by its syntax tree. Nothing of it is run."""

from __future__ import annotations

import ast
from dataclasses import replace

from reprokit.importing.model import Scope, SourceFile, Statements
from reprokit.importing.python_imports import import_statements
from reprokit.importing.readers.pyproject import classifier
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.scopes import scope_of_group
from reprokit.importing.setup_values import Module

MOST = 256 << 10
_TEXTS = {"name": "project", "version": "version", "license": "licence", "url": "address", "python_requires": "python"}
_LISTS: dict[str, Scope | None] = {"install_requires": None, "requires": None, "setup_requires": "build",
                                   "tests_require": "test"}  # fmt: skip
_EXTENSIONS = {"CUDAExtension": "torch-cuda", "CppExtension": "torch", "Extension": "c", "cythonize": "cython",
               "Pybind11Extension": "pybind11", "CMakeExtension": "cmake", "RustExtension": "rust",
               "cffi_modules": "cffi"}  # fmt: skip
_CHOSEN = ("CUDAExtension", "CppExtension")
# Calls whose first argument is no module.
_UNNAMED = ("cythonize", "cffi_modules")


def reads(path: str, size: int) -> bool:
    return path.rpartition("/")[2] == "setup.py"


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
        # What it looks for before it compiles: a header, or the program that knows a library's flags.
        if text.endswith((".h", "-config", "_config")) and " " not in text:
            yield file.states("library", text, line)
        elif "-fopenmp" in text:
            yield file.states("library", "OpenMP", line)
    for name, extension in _EXTENSIONS.items():
        # `kind = CUDAExtension if with_cuda else CppExtension` calls neither by its name.
        for found in module.uses(name) if name in _CHOSEN else module.calls(name):
            yield file.states("extension", extension, found.lineno)
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
            # What is compiled for CUDA is not made everywhere.
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
        yield from _requirements(file, module, key, value, _LISTS[key], "")
    elif key == "extras_require":
        items = module.items(value)
        for extra, inner in items:
            yield from _requirements(file, module, f"extra {extra}", inner, scope_of_group(extra), extra)
        if not items:
            yield file.states("unread", "extras_require is computed", value.lineno)
    elif key in ("packages", "py_modules") and module.complete(value):
        for text, line in module.texts(value):
            yield file.states("module", text.partition(".")[0], line)
    elif key in ("ext_modules", "cffi_modules"):
        yield file.states("extension", "c" if key == "ext_modules" else "cffi", value.lineno)


def _requirements(
    file: SourceFile, module: Module, key: str, value: ast.expr, scope: Scope | None, extra: str
) -> Statements:
    found = list(module.texts(value))
    for text, line in found:
        for part in text.splitlines():
            if part.strip() and not part.strip().startswith("#"):
                yield file.states("package", part, line, scope, extra)
    if module.complete(value):
        return
    # What is computed mostly comes from a file that the expression, or a function that it calls, names.
    names = [(text, line) for text, line in module.strings_behind(value) if text.endswith((".txt", ".in"))]
    for name, line in names:
        yield file.states("include", f"-r {name}", line, scope, extra)
    if not names and not found:
        yield file.states("unread", f"{key} is computed", value.lineno, scope)
