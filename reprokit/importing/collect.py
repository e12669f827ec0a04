"""Collect the statements of all files of a repository, each by the reader of its format."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import NamedTuple

from reprokit.importing.model import (
    BINDER,
    BINDER_REPLACES,
    VENDORED,
    Origin,
    Scope,
    SourceFile,
    Statement,
    scope_of_path,
)
from reprokit.importing.readers import READERS
from reprokit.importing.reading import MOST, ReaderProcess
from reprokit.importing.tree import Tree
from reprokit.untrusted.limits import Limit

# Size of all files that are read. The Python code of large projects has some 20 MB.
BYTES = Limit("SOURCE_BYTES", 256 << 20)
# Time for all files together. 180 MB of Python take 8 s, and projects have a tenth of that.
SECONDS = Limit("SOURCE_SECONDS", 8)
# Subjects of which equal statements count once.
_ONCE = ("import", "test", "tested", "library")

_DEEPEST = 8  # files that include others
_BESIDE = ("requirements", "environment", "pyproject", "setup.cfg", "setup.py")  # they name files beside them
# Formats whose commands may name files of other folders or projects.
_TRYING = ("workflow", "tox", "makefile")
_NEEDED = ("run", "build", "test")


class _Plan(NamedTuple):
    path: str
    format: str
    scope: Scope


def collect(tree: Tree) -> list[Statement]:
    """The statements of all files, in the order of their paths. Raises UsageError for a tree beyond the limits."""
    statements: list[Statement] = [
        Statement("unread", f"{why}, which is not read", Origin(path, 1), "tree")
        for path, why in sorted(tree.contents.passed_over.items())
        if any(reader.reads(path, 0) for reader in READERS.values())
    ]
    chosen, refused = _chosen(tree)
    statements += refused
    BYTES.check(sum(tree.contents.sizes[plan.path] for plan in chosen), "bytes of code and settings", tree.address)
    by_path = {plan.path: plan for plan in chosen}
    seen: set[tuple[str, ...]] = set()
    with ReaderProcess() as reader:
        for path, content in tree.read(by_path):
            SECONDS.check(int(reader.seconds), "seconds of processor time for the files of a repository", tree.address)
            for statement in _statements(by_path[path], content, reader):
                key = (statement.subject, statement.value, statement.scope, statement.format)
                if statement.subject in _ONCE and key in seen:
                    continue
                seen.add(key)
                statements.append(statement)
                if len(statements) >= MOST:
                    why = f"what follows after {MOST} statements"
                    return [*statements, replace(statement, subject="unread", value=why)]
        statements += _included(tree, statements, set(by_path), reader)
    return statements


def _chosen(tree: Tree) -> tuple[list[_Plan], list[Statement]]:
    chosen, refused = [], []
    for path, size in sorted(tree.contents.sizes.items()):
        if VENDORED & set(path.lower().split("/")[:-1]):
            continue
        for name, reader in READERS.items():
            if not reader.reads(path, size):
                continue
            if size > reader.most:
                why = f"{size} bytes, and at most {reader.most} of this format are read"
                refused.append(Statement("unread", why, Origin(path, 1), name))
            else:
                chosen.append(_Plan(path, name, scope_of_path(path)))
            break
    code = any(plan.format == "python" and plan.scope == "run" for plan in chosen)
    notebooks = [plan for plan in chosen if plan.format == "notebook" and plan.scope == "example" and not code]
    changed = {plan.path: plan._replace(scope="run") for plan in notebooks}  # they are the only code
    if any(plan.path.startswith(BINDER) for plan in chosen):
        changed |= {plan.path: plan._replace(scope="other") for plan in chosen if plan.path in BINDER_REPLACES}
    return [changed.get(plan.path, plan) for plan in chosen], refused


def _statements(plan: _Plan, content: bytes, reader: ReaderProcess) -> list[Statement]:
    text = content.decode("utf-8-sig", "replace")
    file = SourceFile(plan.path, text, plan.format, plan.scope)
    if "\0" in text:
        return [file.states("unread", "not a text")] if plan.format != "lfs" else []
    return reader.statements(file)


def _included(tree: Tree, statements: Iterable[Statement], read: set[str], reader: ReaderProcess) -> list[Statement]:
    """The statements of requirements files that other files name and that no reader has read."""
    sizes = tree.contents.sizes
    left = [statement for statement in statements if statement.subject == "include"]
    copied = _by_name(tree) if any(statement.format == "dockerfile" for statement in left) else {}
    more: list[Statement] = []
    for _ in range(_DEEPEST):
        chosen: dict[str, Statement] = {}
        for statement in left:
            path = _included_path(statement, sizes)
            if statement.format == "dockerfile" and path not in sizes and "://" not in path:  # a path in the image
                path = copied.get(posixpath.basename(path), path)
            size = sizes.get(path)
            if size is None or size > READERS[_format(path)].most:
                why = "is no file of the repository" if size is None else f"has {size} bytes"
                missing = replace(statement, subject="unread", value=f"{path}, which {why}")
                more += [missing] if statement.format not in _TRYING and statement.scope in _NEEDED else []
            elif path not in read:
                chosen.setdefault(path, statement)
        BYTES.check(sum(sizes[path] for path in chosen), "bytes of included files", tree.address)
        read |= set(chosen)
        left = []
        for path, content in tree.read(chosen):
            SECONDS.check(int(reader.seconds), "seconds of processor time for the files of a repository", tree.address)
            file = SourceFile(path, content.decode("utf-8-sig", "replace"), _format(path), chosen[path].scope)
            stated = reader.statements(file, chosen[path].value.startswith("-c "))
            more += stated
            left += [inner for inner in stated if inner.subject == "include"]
            if len(more) > MOST:
                return [*more, replace(chosen[path], subject="unread", value=f"{path}: too many statements")]
    for first in left[:1]:
        more.append(replace(first, subject="unread", value=f"{_included_path(first, sizes)}: included too deep"))
    return more


def _included_path(statement: Statement, paths: Container[str]) -> str:
    """The named file, beside the file that names it or in the root, where scripts mostly run.

    The likelier path if neither exists. An address stays as it is.
    """
    option, _, name = statement.value.partition(" ")
    if "://" in name:
        return name
    root = posixpath.normpath(name or option)
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(statement.origin.file), root))
    candidates = (beside, root) if statement.format in _BESIDE else (root, beside)
    return next((path for path in candidates if path in paths), candidates[0])


def _format(path: str) -> str:
    return "environment" if path.endswith((".yml", ".yaml")) else "requirements"


def _by_name(tree: Tree) -> dict[str, str]:
    """The paths by file name; the path nearest to the root if several files have one name."""
    return {path.rpartition("/")[2]: path for path in sorted(tree.contents.sizes, key=lambda p: -p.count("/"))}
