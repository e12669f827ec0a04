"""Pointers of Git LFS, whose content is not part of a commit."""

from __future__ import annotations

from reprokit.formatting import size as in_words
from reprokit.importing.model import SourceFile, Statements

MOST = 1024
_FIRST = "version https://git-lfs.github.com/spec/"


def reads(path: str, size: int) -> bool:
    return 100 <= size <= 200


def read(file: SourceFile) -> Statements:
    if file.text.startswith(_FIRST):
        size = next((line.removeprefix("size ") for line in file.text.splitlines() if line.startswith("size ")), "")
        yield file.states("lfs", in_words(int(size)) if size.isdigit() and len(size) < 19 else "unknown size")
