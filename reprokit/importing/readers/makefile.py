"""Makefiles: the installs among their commands."""

from __future__ import annotations

from functools import cache

import tree_sitter_make
from tree_sitter import Language, Parser

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers.cmake import architectures
from reprokit.importing.shell import text_of, walk

MOST = 256 << 10


def reads(path: str, size: int) -> bool:
    return path.rpartition("/")[2] in ("Makefile", "makefile", "GNUmakefile") and path.count("/") <= 1


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_make.language()))


def read(file: SourceFile) -> Statements:
    for node in walk(_parser().parse(file.text.encode("utf-8", "replace")).root_node):
        line = node.start_point[0] + 1
        if node.type == "shell_text":
            yield from script_statements(file.part(text_of(node), line))
        for word in text_of(node).split() if node.type in ("shell_text", "variable_assignment") else ():
            for option in ("-arch=", "code=", "arch="):
                value = word.partition(option)[2].partition(",")[0]
                if value.startswith(("sm_", "compute_")):
                    yield from architectures(file, value, line)
                    break
