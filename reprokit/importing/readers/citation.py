"""`CITATION.cff` and licences: what a recipe says about the paper."""

from __future__ import annotations

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table
from reprokit.recipe import yaml

MOST = 256 << 10
_LICENCES = ("license", "licence", "copying")
# What a licence's text has, the most telling first.
_PHRASES = (
    ("GNU AFFERO GENERAL PUBLIC LICENSE", "AGPL-3.0"),
    ("GNU LESSER GENERAL PUBLIC LICENSE", "LGPL"),
    ("GNU GENERAL PUBLIC LICENSE Version 3", "GPL-3.0"),
    ("GNU GENERAL PUBLIC LICENSE Version 2", "GPL-2.0"),
    ("Mozilla Public License", "MPL-2.0"),
    ("Apache License Version 2.0", "Apache-2.0"),
    ("Permission to use, copy, modify, and/or distribute this software", "ISC"),
    ("Neither the name", "BSD-3-Clause"),
    ("Redistribution and use in source and binary forms", "BSD-2-Clause"),
    ("Permission is hereby granted, free of charge", "MIT"),
    ("This is free and unencumbered software", "Unlicense"),
)


def reads(path: str, size: int) -> bool:
    return path == "CITATION.cff" or path.lower().partition(".")[0] in _LICENCES


def read(file: SourceFile) -> Statements:
    if file.path != "CITATION.cff":
        words = " ".join(file.text.split())
        yield file.states("licence", next((name for phrase, name in _PHRASES if phrase.lower() in words.lower()), ""))
        return
    document = yaml.read(file.text, file.path)
    cited = table(document.data, "preferred-citation") or table(document.data)
    if isinstance(title := cited.get("title"), str):
        yield file.states("title", title, document.line(("title",)))
