"""`.gitmodules`, and pointers of Git LFS, whose content is not part of a commit."""

from __future__ import annotations

from reprokit.formatting import size as in_words
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers.ini_files import parsed


def read_gitmodules(file: SourceFile) -> Statements:
    config = parsed(file)
    for section in config.sections():
        path, url = config.get(section, "path", fallback="") or "", config.get(section, "url", fallback="") or ""
        yield file.states("submodule", f"{path} {url}", file.line_of(f"[{section}]", "url"))


_FIRST = "version https://git-lfs.github.com/spec/"


def read_lfs(file: SourceFile) -> Statements:
    if file.text.startswith(_FIRST):
        size = next((line.removeprefix("size ") for line in file.text.splitlines() if line.startswith("size ")), "")
        yield file.states("lfs", in_words(int(size)) if size.isdigit() and len(size) < 19 else "unknown size")
