"""Shell text as commands with their words, by the grammar of tree-sitter. Nothing is expanded or run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_NODES = 200_000


class ShellCommand(NamedTuple):
    """One simple command. Words with variables or substitutions in them are left out. Lines count from 1."""

    line: int
    words: list[str]


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def commands(text: str) -> Iterator[ShellCommand]:
    """The commands of a script in its order, whatever it does with them; an assignment is the word NAME=VALUE."""
    for node in walk(_parser().parse(text.encode("utf-8", "replace")).root_node):
        if node.type in ("command", "declaration_command"):
            words = [word for child in node.children if (word := _word(child)) is not None]
            if words:
                yield ShellCommand(node.start_point[0] + 1, words)
        elif node.type == "variable_assignment" and node.parent is not None and node.parent.type in _ALONE:
            word = _word(node)
            if word is not None:
                yield ShellCommand(node.start_point[0] + 1, [word])


_ALONE = ("program", "list", "compound_statement", "do_group", "if_statement", "variable_assignments")


def walk(root: Node) -> Iterator[Node]:
    """The nodes of a syntax tree in the order of the text, without recursion and up to a limit."""
    left = [root]
    for _ in range(_NODES):
        if not left:
            return
        node = left.pop()
        yield node
        left += reversed(node.children)


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _word(node: Node) -> str | None:
    """The value of a word, None for one that only the shell knows."""
    if node.type in ("command_name", "concatenation", "variable_assignment"):
        parts = [text_of(part) if part.type in ("variable_name", "=") else _word(part) for part in node.children]
        return None if None in parts else "".join(part or "" for part in parts)
    if node.type == "string":
        inner = node.named_children
        return "".join(map(text_of, inner)) if all(part.type == "string_content" for part in inner) else None
    if node.type == "raw_string":
        return text_of(node)[1:-1]
    if node.type in ("word", "number", "export", "declare", "local", "readonly"):
        return text_of(node).replace("\\\n", "").replace("\\", "")
    return None
