"""C, C++ and Cython sources: the headers that they include. Those between `#if` and `#endif` are optional."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements

MOST = 256 << 10
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".pxd", ".pxi")
_HEAD = 32 << 10  # characters in which includes are looked for


def reads(path: str, size: int) -> bool:
    return path.endswith(_SOURCES) and size <= MOST  # larger ones are mostly generated


def read(file: SourceFile) -> Statements:
    depth = 0
    for line, text in enumerate(file.text[:_HEAD].splitlines(), 1):
        directive, _, rest = text.strip().removeprefix("#").strip().partition(" ")
        if text.lstrip().startswith("#"):
            depth += directive.startswith("if") - (directive == "endif")
        else:
            directive, _, rest = rest.partition(" from ") if directive == "cdef" else ("", "", "")
        if depth == 0 and directive.strip() in ("include", "extern") and (header := _header(rest.strip())):
            yield file.states("library", header, line)


def _header(text: str) -> str:
    """The header of `<a/b.h>` or `"a/b.h"`; empty for `*` and the like."""
    text = text.replace("'", '"')
    name = text[1:].replace(">", '"').partition('"')[0].lstrip("<")
    return name if text[:1] in ("<", '"') and name and " " not in name else ""
