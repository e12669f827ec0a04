"""The README: its shell blocks, its title, and the versions that its prose names."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements, Subject
from reprokit.untrusted import patterns

MOST = 256 << 10
_LANGUAGES = {
    "",
    "bash",
    "sh",
    "shell",
    "console",
    "zsh",
    "shell-session",
    "shellscript",
    "terminal",
    "text",
    "powershell",
}
_NAMED: dict[str, Subject] = {
    "python": "python", "cuda": "cuda", "cudnn": "cudnn", "gcc": "gcc", "g++": "gcc", "cmake": "cmake",
    "pytorch": "package", "torch": "package", "tensorflow": "package", "numpy": "package", "ubuntu": "distro",
}  # fmt: skip


_PROJECTS = {"pytorch": "torch"}
# A README whose first heading comes later has its title as an image or as HTML.
_SHOWN = 100
_LONGEST = 2000  # characters of a line
_TITLE_WITHIN = 20


@cache
def _versions():  # type: ignore[no-untyped-def]
    name = r"(?:^|[\s(*`\[])(python|cuda|cudnn|gcc|g\+\+|cmake|pytorch|torch|tensorflow|numpy|ubuntu)"
    between = r"(?:\s+toolkit)?(?:[*`(]|\s)*(==|>=|<=|~=|>|=|≥|v|version|-)?\s*v?"
    version = r"([0-9]+(?:\.[0-9]+){0,2})(\s*(?:\+|(?:or|and)\s+(?:later|newer|higher|greater|above|up)))?"
    # `Python 3.6, 3.7 and 3.8` and `3.6 to 3.9` name no single version.
    version += r"(\s*(?:,|and|or|to|-|/|through)\s*v?[0-9]+\.[0-9.]*[0-9])?(?:[\s,;)*`.|\]]|$)"
    return patterns.compiled(f"(?i){name}{between}{version}")


def reads(path: str, size: int) -> bool:
    return path.lower() in (
        "readme.md",
        "install.md",
        "installation.md",
        "readme",
        "readme.rst",
        "readme.txt",
        "docs/install.md",
    )


def read(file: SourceFile) -> Statements:
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


@cache
def _news():  # type: ignore[no-untyped-def]
    return patterns.compiled(r"(?i)\b(?:add|drop|remov)(?:s|ed|es|ped)?\b.*\bsupport\b")


_NOT = r"(?:\b(?:not|never|no longer)|n['\x{2019}]t)\b"


@cache
def _denials():  # type: ignore[no-untyped-def]
    words = r"\b(?:un|in)(?:supported|compatible)\b|\b(?:fail|break)(?:s|ed)?\b|\bbroken\b"
    return patterns.compiled(rf"(?i){words}|{_NOT}(?: \w+){{0,2}} (?:work|support|compat)")


@cache
def _doubts():  # type: ignore[no-untyped-def]
    return patterns.compiled(rf"(?i){_NOT}|\b(?:without|except|instead of|if|unless|only)\b|\?\s*$")


@cache
def _negates():  # type: ignore[no-untyped-def]
    return patterns.compiled(rf"(?i){_NOT}|\?\s*$")


@cache
def _ends():  # type: ignore[no-untyped-def]
    return patterns.compiled(r"[^.!?;]*(?:[.!?;]+[^\s.!?;][^.!?;]*)*[.!?;]*\s*")


def _prose(file: SourceFile, line: str, number: int, before: str) -> Statements:
    """The versions that a line names. `before` is the line above it, in which its first sentence may begin."""
    begun = ([part for part in _ends().findall(before[-_LONGEST:]) if part] or [""])[-1]
    context = "" if begun.rstrip().endswith((".", "!", "?", ";", ":")) else begun
    for sentence in filter(None, _ends().findall(line[:_LONGEST])):
        if not _news().search(sentence):
            yield from _sentence(file, sentence, f"{context} {sentence}", number)
        context = ""


def _sentence(file: SourceFile, sentence: str, context: str, number: int) -> Statements:
    """The versions that a sentence names. One that denies them excludes them; other negations are for the reader."""
    denied = bool(_denials().search(context))
    doubted = bool(_doubts().search(_denials().sub("", context)) if denied else _negates().search(context))
    for name, operator, version, newer, several in _versions().findall(sentence):
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
