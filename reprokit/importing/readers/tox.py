"""`tox.ini` and `pytest.ini`: the Pythons that are tested, and what the tests need."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers.setup_cfg import ini_plugins, lines, parsed
from reprokit.importing.requirement_lines import requirement_statements

MOST = 1 << 20


def reads(path: str, size: int) -> bool:
    return path in ("tox.ini", "pytest.ini")


def read(file: SourceFile) -> Statements:
    config = parsed(file)
    yield from ini_plugins(file, config, "pytest")
    names = config.get("tox", "envlist", fallback="")
    for mark in "{}-,":
        names = names.replace(mark, " ")
    for word in names.split():
        version = word.removeprefix("py")  # `py{38,39}` gives numbers of their own
        if version.isdigit() and version.startswith("3") and len(version) in (2, 3):
            yield file.states("tested", f"3.{version[1:]}", file.line_of("envlist"))
    for text in lines(config.get("testenv", "deps", fallback="")):
        if "{" not in text and ":" not in text.partition(";")[0]:
            part = file.part(text, file.line_of("deps", text))
            yield from requirement_statements(part, one_line=True, scope="test")
