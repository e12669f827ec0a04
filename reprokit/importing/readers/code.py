"""Code: the imports of Python and of notebooks, and the headers of C, C++ and Cython.

Imports are read by the grammar of tree-sitter, which also reads Python 2 and damaged files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter_python
from tree_sitter import Node

from reprokit.importing.installs import parser, script_statements, text_of
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table, texts
from reprokit.untrusted.documents import parsed

# Bytes that are parsed after the last import at the left margin: later imports are within functions.
_AFTER = 2000
# Namespace packages: several distributions have modules in them.
_SHARED = {"google"}
_IMPORTS = {"import_statement", "import_from_statement"}
# The nodes whose statements always run. Expressions are not searched: their nesting has no limit.
_HOLDS_STATEMENTS = {
    *("block", "ERROR", "for_statement", "while_statement", "else_clause", "with_statement"),
    *("match_statement", "case_clause"),
}


def import_statements(file: SourceFile) -> Statements:
    """One statement for each top-level name that is imported, but not within `try`, `if`, functions and classes."""
    code = file.text.encode("utf-8", "replace")
    if b"import" not in code:
        return
    last = max(code.rfind(b"\nimport "), code.rfind(b"\nfrom "), 0)
    for node in _imports(parser(tree_sitter_python.language).parse(code[: last + _AFTER]).root_node):
        for name in _names_imported(node):
            yield file.states("import", name, node.start_point[0] + 1)


def _imports(root: Node) -> Iterator[Node]:
    """The import statements, in order. A query of tree-sitter takes quadratic time in damaged files."""
    left = [root]
    while left:
        node = left.pop()
        if node.type in _IMPORTS:
            yield node
        elif node is root or node.type in _HOLDS_STATEMENTS:
            left += reversed(node.named_children)


def _names_imported(node: Node) -> list[str]:
    if node.type == "import_from_statement":
        module = node.child_by_field_name("module_name")
        if module is None or module.type != "dotted_name":
            return []
        if text_of(module) not in _SHARED:
            return [_top(module)]
        return [f"{text_of(module)}.{name}" for name in _imported(node.children_by_field_name("name"))]
    return _imported(node.named_children)


def _imported(nodes: list[Node]) -> list[str]:
    names = [child.child_by_field_name("name") if child.type == "aliased_import" else child for child in nodes]
    return [_top(child) for child in names if child is not None and child.type == "dotted_name"]


def _top(node: Node) -> str:
    first, *names = text_of(node).replace(" ", "").split(".")
    return ".".join([first, *names[: first in _SHARED]])


# Files that pytest collects. Modules that are not tests can have such names, too.
_TEST_FILE = re.compile(r"test_.+\.py|.+_test\.py")
_TEST = re.compile(r"^[ \t]*(?:async )?def test", re.MULTILINE)


def read_python(file: SourceFile) -> Statements:
    yield from import_statements(file)
    if _TEST_FILE.fullmatch(file.name) and (test := _TEST.search(file.text)):
        yield file.states("test", "pytest", file.text.count("\n", 0, test.start()) + 1)


_SHELLS = ("%%bash", "%%sh", "%%shell")
# Magics of cells with Python code; with others a cell is a file, a page, or another language.
_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun", "%%px", "%%memit", "%%mprun", "%%skip", "%%heat")


def read_notebook(file: SourceFile) -> Statements:
    data = table(parsed(file.text, file.path))
    version = table(data, "metadata", "language_info").get("version")
    if isinstance(version, str) and version.startswith("3."):
        yield file.states("tested", ".".join(version.split(".")[:2]), file.line_of('"language_info"', '"version"'))
    place = 0
    for cell in data.get("cells") or []:
        if table(cell).get("cell_type") != "code":
            continue
        lines = "".join(texts(cell.get("source"))).splitlines()
        first = next((line for line in lines if line.strip()), "")
        # The line of the file that has the cell's first line; the others follow it.
        position = file.text.find(first[:40].replace("\\", "\\\\").replace('"', '\\"'), place)
        place = max(place, position)
        line = file.text.count("\n", 0, place) + 1
        magic, *words = first.split() or [""]
        if magic in _SHELLS or (magic == "%%script" and words[:1] in (["bash"], ["sh"])):
            script = "\n".join("" if text.lstrip().startswith("%%") else text for text in lines)
            yield from script_statements(file.part(script, line))
        if magic.startswith("%%") and magic not in _PYTHON:
            continue
        code = "\n".join("" if text.lstrip().startswith(("!", "%")) else text for text in lines)
        yield from import_statements(file.part(code, line))
        for number, text in enumerate(lines):
            if text.lstrip().startswith(("!", "%pip", "%conda")):
                yield from script_statements(file.part(text.lstrip()[1:], line + number))


_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".pxd", ".pxi")
_HEAD = 32 << 10  # characters in which includes are looked for


def read_c(file: SourceFile) -> Statements:
    depth = 0
    for line, text in enumerate(file.text[:_HEAD].splitlines(), 1):
        directive, _, argument = text.strip().removeprefix("#").strip().partition(" ")
        if text.lstrip().startswith("#"):
            depth += directive.startswith("if") - (directive == "endif")
        else:
            directive, _, argument = argument.partition(" from ") if directive == "cdef" else ("", "", "")
        if depth == 0 and directive.strip() in ("include", "extern") and (header := _header(argument.strip())):
            yield file.states("library", header, line)


def _header(text: str) -> str:
    """The header of `<a/b.h>` or `"a/b.h"`; empty for `*` and the like."""
    text = text.replace("'", '"')
    name = text[1:].replace(">", '"').partition('"')[0].lstrip("<")
    return name if text[:1] in ("<", '"') and name and " " not in name else ""
