"""Where a C++ name is declared: headers and sources searched for the declaration that fits a demangled symbol."""

import os
import re
from typing import Iterator, List, NamedTuple, Optional, Sequence

_SUFFIXES = (".h", ".hpp", ".cuh", ".cpp", ".cu")
_NO_TYPES = {"return", "else", "new", "throw", "case", "delete", "goto", "and", "or", "not", "co_return"}


class Symbol(NamedTuple):
    scopes: List[str]  # namespaces and classes, outermost first
    name: str
    parameters: Optional[List[str]]  # None: no function


def where(demangled: str, folders: Sequence[str]) -> Optional[str]:
    """FILE:LINE of the declaration below the first of `folders` that has one, or None.

    Of overloads, the one with as many parameters, their types' names in it, and the scopes in its file.
    """
    symbol = parse(demangled)
    if symbol is None:
        return None
    for folder in folders:
        best, place = 0, None
        for path in _files(folder):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if symbol.name not in text:
                continue
            for start in _declarations(symbol, text):
                fit = 1 + _fit(symbol, text, start)
                if fit > best:
                    best, place = fit, "%s:%d" % (path, text.count("\n", 0, start) + 1)
        if place:
            return place
    return None


def parse(demangled: str) -> Optional[Symbol]:
    """A demangled symbol's parts, without return type and template arguments; None where they cannot be told."""
    text = demangled.replace("(anonymous namespace)::", "").replace("[abi:cxx11]", "")
    text = re.sub(r"^(?:vtable|typeinfo|typeinfo name|VTT|guard variable|non-virtual thunk) (?:for|to) ", "", text)
    if "operator" in text:
        return None
    plain = _without_templates(text)
    head, bracket, rest = plain.partition("(")
    words = head.split()
    if not words:
        return None
    names = words[-1].split("::")
    parameters = None
    if bracket:
        inside = rest.rsplit(")", 1)[0]
        parameters = [part for part in inside.split(",") if part.strip() not in ("", "void")]
    return Symbol(names[:-1], names[-1], parameters)


def _files(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(_SUFFIXES):
                yield os.path.join(parent, name)


def _declarations(symbol: Symbol, text: str) -> Iterator[int]:
    """Where the name stands in what looks like a declaration of it."""
    name = re.escape(symbol.name)
    is_function = symbol.parameters is not None and symbol.scopes[-1:] != [symbol.name]
    if not is_function:
        # A variable, or a class by its virtual table, its type or its constructor.
        pattern = r"\b(?:class|struct|extern|static)\b[^;{}()\n]*?\b(%s)\b" % name
    else:
        pattern = r"^[ \t]*(?:[\w:<>,*&\[\]() \t]*?[\s*&>\]])??([\w:]*\b%s)\s*\(" % name
    for match in re.finditer(pattern, text, re.MULTILINE):
        before = text[match.start() : match.start(1)].split()
        if not is_function or (before and not _NO_TYPES & set(before)):
            yield match.start(1)


def _fit(symbol: Symbol, text: str, start: int) -> int:
    points = sum(1 for scope in symbol.scopes if re.search(r"\b%s\b" % re.escape(scope), text))
    if symbol.parameters is None:
        return points
    written = _bracketed(text, text.index("(", start))
    parts = [part for part in _without_templates(written).split(",") if part.strip() not in ("", "void")]
    points += 4 * (len(parts) == len(symbol.parameters))
    for wanted, part in zip(symbol.parameters, parts):
        types = re.findall(r"\w+", wanted)
        points += 2 * bool(types and types[-1] != "const" and types[-1] in re.findall(r"\w+", part))
    return points


def _bracketed(text: str, start: int) -> str:
    depth = 0
    for i in range(start, min(len(text), start + 4000)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[start + 1 : i]
    return text[start + 1 : start + 4000]


def _without_templates(text: str) -> str:
    kept, depth = [], 0
    for character in text:
        depth += character == "<"
        if depth == 0:
            kept.append(character)
        depth -= character == ">" and depth > 0
    return "".join(kept)
