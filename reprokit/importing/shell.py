"""Shell text as commands with their words, by the grammar of tree-sitter. Nothing is expanded or run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_NODES = 200_000
SHELLS = ("bash", "sh", "zsh", "dash")
_DEEPEST = 3  # scripts within scripts
_ROUNDS = 100  # of all loops around a command
_LONGEST = 1000  # characters of a variable's value
_Known = Mapping[str, str]


class ShellCommand(NamedTuple):
    """One simple command. Lines count from 1. `incomplete` if it has words whose value only a shell knows."""

    line: int
    words: list[str]
    incomplete: bool = False


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def commands(text: str, depth: int = 0) -> Iterator[ShellCommand]:
    """The commands of a script in its order, whatever it does with them; an assignment is the word NAME=VALUE.

    Scripts for another shell (`bash -c`, `bash <<EOF`) are part of it. A loop over literal words gives each of its
    rounds, and a variable that is set once, to a literal, has that value.
    """
    root = _parser().parse(text.encode("utf-8", "replace")).root_node
    left: list[tuple[Node, list[dict[str, str]]]] = [(root, [_set_once(root)])]
    for _ in range(_NODES):
        if not left:
            return
        node, rounds = left.pop()
        if node.type == "for_statement":
            rounds = _rounds(node, rounds)
        elif node.type == "redirected_statement" and depth < _DEEPEST:
            yield from _from_heredoc(node, depth)
        elif node.type in ("command", "declaration_command"):
            for known in rounds if b"$" in (node.text or b"") else rounds[:1]:
                if (command := _command(node, known)).words:
                    yield command
                    yield from _from_argument(command, depth)
        elif node.type == "variable_assignment" and node.parent is not None and node.parent.type in _ALONE:
            word = _word(node, rounds[0])
            if word is not None:
                yield ShellCommand(node.start_point[0] + 1, [word])
        left += [(child, rounds) for child in reversed(node.children)]


_ALONE = ("program", "list", "compound_statement", "do_group", "if_statement", "variable_assignments")


def _command(node: Node, known: _Known) -> ShellCommand:
    words, incomplete = [], False
    for child in node.children:
        word = _word(child, known)
        if word is None:
            incomplete = incomplete or child.type not in ("variable_assignment", "herestring_redirect")
        elif child.type in ("simple_expansion", "expansion"):
            words += word.split()
        else:
            words.append(word)
    if words and words[0] in SHELLS and node.parent is not None and node.parent.type == "pipeline":
        incomplete = True  # its script comes from another program
    return ShellCommand(node.start_point[0] + 1, words, incomplete)


def _set_once(root: Node) -> dict[str, str]:
    """The variables that a script sets once, to a literal."""
    found: dict[str, str | None] = {}
    for node in walk(root):
        if node.type == "variable_assignment":
            name, equals, value = (_word(node, {}) or text_of(node)).partition("=")
            literal = equals and _word(node, {}) is not None and len(value) <= _LONGEST
            found[name.removesuffix("+")] = value if literal and name not in found else None
    return {name: value for name, value in found.items() if value is not None}


def _rounds(loop: Node, around: list[dict[str, str]]) -> list[dict[str, str]]:
    """The variables in each round of a loop over literal words."""
    variable = loop.child_by_field_name("variable")
    values = [_word(child, {}) for child in loop.children_by_field_name("value")]
    if variable is None or not values or len(around) * len(values) > _ROUNDS:
        return around
    literal = [value for value in values if value is not None and len(value) <= _LONGEST]
    name = text_of(variable)
    return [{**known, name: value} for known in around for value in literal] if len(literal) == len(values) else around


def _from_argument(command: ShellCommand, depth: int) -> Iterator[ShellCommand]:
    """The commands of `bash -c SCRIPT`."""
    program, *rest = command.words
    if program.rpartition("/")[2] not in SHELLS or depth >= _DEEPEST:
        return
    for place, option in enumerate(rest[:-1]):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            yield from _moved(rest[place + 1].replace('\\"', '"'), command.line, depth)
            return


def _from_heredoc(statement: Node, depth: int) -> Iterator[ShellCommand]:
    """The commands of `bash <<EOF`."""
    body = statement.child_by_field_name("body")
    if body is None or body.type != "command":
        return
    words = _command(body, {}).words
    if not words or words[0].rpartition("/")[2] not in SHELLS:
        return
    for redirect in statement.children_by_field_name("redirect"):
        for part in redirect.children if redirect.type == "heredoc_redirect" else ():
            if part.type == "heredoc_body":
                yield from _moved(text_of(part), part.start_point[0] + 1, depth)


def _moved(text: str, line: int, depth: int) -> Iterator[ShellCommand]:
    for command in commands(text, depth + 1):
        yield command._replace(line=command.line + line - 1)


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


def _word(node: Node, known: _Known) -> str | None:
    """The value of a word, None for one that only the shell knows."""
    if node.type in ("command_name", "concatenation", "variable_assignment"):
        parts = [text_of(part) if part.type in ("variable_name", "=") else _word(part, known) for part in node.children]
        return None if None in parts else "".join(part or "" for part in parts)
    if node.type == "string":
        inner = [_word(part, known) for part in node.children if part.type != '"']
        return None if None in inner else "".join(part or "" for part in inner)
    if node.type in ("simple_expansion", "expansion"):
        name = next((text_of(part) for part in node.named_children if part.type == "variable_name"), "")
        return known.get(name) if text_of(node) in (f"${name}", f"${{{name}}}") else None
    if node.type == "string_content":
        return text_of(node)
    if node.type == "raw_string":
        return text_of(node)[1:-1]
    if node.type in ("word", "number", "export", "declare", "local", "readonly"):
        return text_of(node).replace("\\\n", "").replace("\\", "")
    return None
