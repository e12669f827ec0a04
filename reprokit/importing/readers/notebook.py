"""Jupyter notebooks: the imports of their cells, and what they install with `!pip` and `%pip`."""

from __future__ import annotations

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.python_imports import import_statements
from reprokit.importing.toml_tables import table, texts
from reprokit.untrusted.documents import parsed

_SHELLS = ("%%bash", "%%sh", "%%shell")
# Other magics make a cell a file, a page, or code of another language.
_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun", "%%px", "%%memit", "%%mprun", "%%skip", "%%heat")
MOST = 16 << 20  # most of a notebook are its pictures


def reads(path: str, size: int) -> bool:
    return path.endswith(".ipynb")


def read(file: SourceFile) -> Statements:
    data = table(parsed(file.text, file.path))
    version = table(data, "metadata", "language_info").get("version")
    if isinstance(version, str) and version.startswith("3."):
        yield file.states("tested", ".".join(version.split(".")[:2]), file.line_of('"language_info"', '"version"'))
    place = 0
    for cell in data.get("cells") or []:
        if table(cell).get("cell_type") != "code":
            continue
        lines = "".join(texts(cell.get("source"))).splitlines()
        first = next((line for line in lines if line.strip()), "")
        # The line of the file where the cell's first line is written; its further lines follow.
        found = file.text.find(first[:40].replace("\\", "\\\\").replace('"', '\\"'), place)
        place = max(place, found)
        line = file.text.count("\n", 0, place) + 1
        magic, *words = first.split() or [""]
        if magic in _SHELLS or (magic == "%%script" and words[:1] in (["bash"], ["sh"])):
            script = "\n".join("" if text.lstrip().startswith("%%") else text for text in lines)
            yield from script_statements(file.part(script, line))
        if magic.startswith("%%") and magic not in _PYTHON:
            continue
        code = "\n".join("" if text.lstrip().startswith(("!", "%")) else text for text in lines)
        yield from import_statements(file.part(code, line))
        for number, text in enumerate(lines):
            if text.lstrip().startswith(("!", "%pip", "%conda")):
                yield from script_statements(file.part(text.lstrip()[1:], line + number))
