"""The imports of Python code, by the grammar of tree-sitter, which also reads Python 2 and damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import tree_sitter_python
from tree_sitter import Language, Node, Parser

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.shell import text_of

# Beyond the last import at the left margin there are only those within functions.
_AFTER = 2000
_CONDITIONAL = {"try_statement", "if_statement", "function_definition", "class_definition", "lambda"}
# Packages that several distributions share, each with a module of its own in them.
_SHARED = {"google"}
_IMPORTS = {"import_statement", "import_from_statement"}
# The nodes that statements are in. Expressions are not searched: they may be nested without end.
_HOLDS_STATEMENTS = {
    *("block", "ERROR", "if_statement", "elif_clause", "else_clause", "for_statement", "while_statement"),
    *("try_statement", "except_clause", "except_group_clause", "finally_clause", "with_statement"),
    *("function_definition", "class_definition", "decorated_definition", "match_statement", "case_clause"),
}


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


def import_statements(file: SourceFile) -> Statements:
    """One statement for each top-level name that is imported; `optional` within `try`, `if`, functions and classes."""
    code = file.text.encode("utf-8", "replace")
    if b"import" not in code:
        return
    last = max(code.rfind(b"\nimport "), code.rfind(b"\nfrom "), 0)
    for node in _imports(_parser().parse(code[: last + _AFTER]).root_node):
        subject = "optional" if _is_conditional(node) else "import"
        for name in _names(node):
            yield file.states(subject, name, node.start_point[0] + 1)  # type: ignore[arg-type]


def _imports(root: Node) -> Iterator[Node]:
    """The import statements, in order. A query of tree-sitter takes quadratic time in damaged files."""
    left = [root]
    while left:
        node = left.pop()
        if node.type in _IMPORTS:
            yield node
        elif node is root or node.type in _HOLDS_STATEMENTS:
            left += reversed(node.named_children)


def _names(node: Node) -> list[str]:
    if node.type == "import_from_statement":
        module = node.child_by_field_name("module_name")
        if module is None or module.type != "dotted_name":
            return []
        if text_of(module) not in _SHARED:
            return [_top(module)]
        return [f"{text_of(module)}.{name}" for name in _imported(node.children_by_field_name("name"))]
    return _imported(node.named_children)


def _imported(nodes: list[Node]) -> list[str]:
    found = [child.child_by_field_name("name") if child.type == "aliased_import" else child for child in nodes]
    return [_top(child) for child in found if child is not None and child.type == "dotted_name"]


def _top(node: Node) -> str:
    first, *rest = text_of(node).replace(" ", "").split(".")
    return ".".join([first, *rest[: first in _SHARED]])


def _is_conditional(node: Node) -> bool:
    parent = node.parent
    for _ in range(100):
        if parent is None:
            return False
        if parent.type in _CONDITIONAL:
            return True
        parent = parent.parent
    return True
