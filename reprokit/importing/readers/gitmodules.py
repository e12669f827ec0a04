"""`.gitmodules`."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers.setup_cfg import parsed

MOST = 1 << 20


def reads(path: str, size: int) -> bool:
    return path == ".gitmodules"


def read(file: SourceFile) -> Statements:
    config = parsed(file)
    for section in config.sections():
        path, url = config.get(section, "path", fallback="") or "", config.get(section, "url", fallback="") or ""
        yield file.states("submodule", f"{path} {url}", file.line_of(f"[{section}]", "url"))
