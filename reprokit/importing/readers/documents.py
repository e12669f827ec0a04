"""The README, `CITATION.cff` and licences."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements, Subject
from reprokit.importing.toml_tables import table
from reprokit.recipe import yaml
from reprokit.untrusted import patterns

_LANGUAGES = {
    "", "bash", "sh", "shell", "console", "zsh", "shell-session", "shellscript", "terminal", "text", "powershell",
}  # fmt: skip
_NAMED: dict[str, Subject] = {
    "python": "python", "cuda": "cuda", "cudnn": "cudnn", "gcc": "gcc", "g++": "gcc", "cmake": "cmake",
    "pytorch": "package", "torch": "package", "tensorflow": "package", "numpy": "package", "ubuntu": "distro",
}  # fmt: skip


_PROJECTS = {"pytorch": "torch"}
# A README whose first heading comes later has its title as an image or as HTML.
_SHOWN = 100
_LONGEST = 2000  # characters of a line
_TITLE_WITHIN = 20


_NAME = r"(?:^|[\s(*`\[])(python|cuda|cudnn|gcc|g\+\+|cmake|pytorch|torch|tensorflow|numpy|ubuntu)"
_BETWEEN = r"(?:\s+toolkit)?(?:[*`(]|\s)*(==|>=|<=|~=|>|=|≥|v|version|-)?\s*v?"
_VERSION = r"([0-9]+(?:\.[0-9]+){0,2})(\s*(?:\+|(?:or|and)\s+(?:later|newer|higher|greater|above|up)))?"
# `Python 3.6, 3.7 and 3.8` and `3.6 to 3.9` name no single version.
_SEVERAL = r"(\s*(?:,|and|or|to|-|/|through)\s*v?[0-9]+\.[0-9.]*[0-9])?(?:[\s,;)*`.|\]]|$)"
_NOT = r"(?:\b(?:not|never|no longer)|n['\x{2019}]t)\b"
_FAILS = r"\b(?:un|in)(?:supported|compatible)\b|\b(?:fail|break)(?:s|ed)?\b|\bbroken\b"
_PATTERNS = {
    "version": f"(?i){_NAME}{_BETWEEN}{_VERSION}{_SEVERAL}",
    "news": r"(?i)\b(?:add|drop|remov)(?:s|ed|es|ped)?\b.*\bsupport\b",
    "denial": rf"(?i){_FAILS}|{_NOT}(?: \w+){{0,2}} (?:work|support|compat)",
    "doubt": rf"(?i){_NOT}|\b(?:without|except|instead of|if|unless|only)\b|\?\s*$",
    "negation": rf"(?i){_NOT}|\?\s*$",
    "sentence": r"[^.!?;]*(?:[.!?;]+[^\s.!?;][^.!?;]*)*[.!?;]*\s*",
}


@cache
def _pattern(name: str):  # type: ignore[no-untyped-def]
    return patterns.compiled(_PATTERNS[name])


def read_readme(file: SourceFile) -> Statements:
    lines = file.text.splitlines()
    if not file.name.lower().endswith(".md"):
        for number, line in enumerate(lines, 1):
            yield from _prose(file, line, number, lines[number - 2] if number > 1 else "")
            if line.strip().startswith(("$ ", "pip install ", "python -m pip ", "conda install ", "sudo apt")):
                yield from script_statements(file.part(_without_prompts(line.strip()), number), runs=True)
        return
    titled = False
    for token in MarkdownIt().parse(file.text):
        first = (token.map or [0])[0]
        if token.type == "inline" and not titled and token.content.strip() and lines[first].startswith("# "):
            titled = True
            if first > _TITLE_WITHIN:
                continue
            title = "".join(part.content for part in token.children or () if part.type == "text")
            yield file.states("title", title, first + 1)
        if token.type == "inline":
            before = ""
            for number, line in enumerate(token.content.splitlines()):
                yield from _prose(file, line, first + number + 1, before)
                before = line
        elif token.type in ("fence", "code_block") and token.info.strip().lower().split(" ")[0] in _LANGUAGES:
            begins = first + (2 if token.type == "fence" else 1)
            yield from script_statements(file.part(_without_prompts(token.content), begins), runs=True)


def _prose(file: SourceFile, line: str, number: int, before: str) -> Statements:
    """The versions that a line names. Its first sentence may begin in `before`, the line above it."""
    begun = ([part for part in _pattern("sentence").findall(before[-_LONGEST:]) if part] or [""])[-1]
    context = "" if begun.rstrip().endswith((".", "!", "?", ";", ":")) else begun
    for sentence in filter(None, _pattern("sentence").findall(line[:_LONGEST])):
        if not _pattern("news").search(sentence):
            yield from _sentence(file, sentence, f"{context} {sentence}", number)
        context = ""


def _sentence(file: SourceFile, sentence: str, context: str, number: int) -> Statements:
    """The versions that a sentence names. A denial excludes them; other negations are reported as unread."""
    denied = bool(_pattern("denial").search(context))
    doubted = bool(
        _pattern("doubt").search(_pattern("denial").sub("", context))
        if denied
        else _pattern("negation").search(context)
    )
    for name, operator, version, newer, several in _pattern("version").findall(sentence):
        subject = _NAMED[name.lower()]
        if several or (subject == "python" and version.startswith("2")):
            continue
        if doubted or (denied and (newer or operator or subject not in ("python", "package"))):
            yield file.states("unread", f"versions in a negation or a question: {sentence.strip()[:_SHOWN]}", number)
            return
        if newer or operator in (">=", "≥", ">"):
            value = f">={version}"
        elif operator == "<=":
            value = f"<={version}"
        else:
            value = f"=={version}" if version.count(".") == 2 else f"=={version}.*"
        value = value.replace("==", "!=") if denied else value
        if subject == "package":
            value = f"{_PROJECTS.get(name.lower(), name.lower())}{value}"
        yield file.states(subject, f"ubuntu:{version}" if subject == "distro" else value, number)


def _without_prompts(text: str) -> str:
    lines = []
    for line in text.splitlines():
        bare = line.lstrip()
        for prompt in ("$ ", "% ", "# pip ", "> "):
            if bare.startswith(prompt):
                bare = bare.removeprefix(prompt.removesuffix("pip "))
        lines.append(bare)
    return "\n".join(lines)


_LICENCES = ("license", "licence", "copying")
# Phrases of licence texts; the first match decides.
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


def read_citation(file: SourceFile) -> Statements:
    if file.path != "CITATION.cff":
        words = " ".join(file.text.split())
        yield file.states("licence", next((name for phrase, name in _PHRASES if phrase.lower() in words.lower()), ""))
        return
    document = yaml.read(file.text, file.path)
    cited = table(document.data, "preferred-citation") or table(document.data)
    if isinstance(title := cited.get("title"), str):
        yield file.states("title", title, document.line(("title",)))
