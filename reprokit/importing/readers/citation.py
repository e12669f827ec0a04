"""`CITATION.cff` and licences: what a recipe says about the paper."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table
from reprokit.recipe import yaml

MOST = 256 << 10
_LICENCES = ("license", "licence", "copying")


def reads(path: str, size: int) -> bool:
    return path == "CITATION.cff" or path.lower().partition(".")[0] in _LICENCES


def read(file: SourceFile) -> Statements:
    if file.path != "CITATION.cff":
        first = next((line.strip() for line in file.text.splitlines() if line.strip()), "")
        if first and len(first) < 80:
            yield file.states("licence", first.strip("# "), file.line_of(first))
        return
    document = yaml.read(file.text, file.path)
    cited = table(document.data, "preferred-citation") or table(document.data)
    if isinstance(title := cited.get("title"), str):
        yield file.states("title", title, document.line(("title",)))
