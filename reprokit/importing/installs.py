"""The commands of shell text, their installs (pip, conda, apt, git) and the environment that they set.

Shell text is read by the grammar of tree-sitter. Nothing is expanded or run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from reprokit.importing.conda import conda_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements

_NODES = 200_000
SHELLS = ("bash", "sh", "zsh", "dash")
_DEEPEST = 3  # scripts within scripts
_ROUNDS = 100  # of all loops around a command
_LONGEST_VALUE = 1000  # characters of a variable's value
_Variables = Mapping[str, str]


class ShellCommand(NamedTuple):
    """One simple command. Lines count from 1. `incomplete` if the value of a word is known only at run time."""

    line: int
    words: list[str]
    incomplete: bool = False


@cache
def parser(language: Callable[[], object]) -> Parser:
    """The parser of one of the packages of tree-sitter."""
    return Parser(Language(language()))


def commands(text: str, depth: int = 0) -> Iterator[ShellCommand]:
    """The commands of a script in order, including those in branches; an assignment is the word NAME=VALUE.

    Nested scripts (`bash -c`, `bash <<EOF`) are included. A loop over literal words is unrolled, and a variable that is
    set once, to a literal, has that value.
    """
    root = parser(tree_sitter_bash.language).parse(text.encode("utf-8", "replace")).root_node
    left: list[tuple[Node, list[dict[str, str]]]] = [(root, [_set_once(root)])]
    for _ in range(_NODES):
        if not left:
            return
        node, rounds = left.pop()
        if node.type == "for_statement":
            rounds = _rounds(node, rounds)
        elif node.type == "redirected_statement" and depth < _DEEPEST:
            yield from _from_heredoc(node, depth)
        elif node.type in ("command", "declaration_command"):
            for variables in rounds if b"$" in (node.text or b"") else rounds[:1]:
                if (command := _words_of(node, variables)).words:
                    yield command
                    yield from _from_argument(command, depth)
        elif node.type == "variable_assignment" and node.parent is not None and node.parent.type in _ALONE:
            word = _word(node, rounds[0])
            if word is not None:
                yield ShellCommand(node.start_point[0] + 1, [word])
        left += [(child, rounds) for child in reversed(node.children)]


_ALONE = ("program", "list", "compound_statement", "do_group", "if_statement", "variable_assignments")


def _words_of(node: Node, variables: _Variables) -> ShellCommand:
    words, incomplete = [], False
    for child in node.children:
        word = _word(child, variables)
        if word is None:
            incomplete = incomplete or child.type not in ("variable_assignment", "herestring_redirect")
        elif child.type in ("simple_expansion", "expansion"):
            words += word.split()
        else:
            words.append(word)
    if words and words[0] in SHELLS and node.parent is not None and node.parent.type == "pipeline":
        incomplete = True  # its script comes from another program
    return ShellCommand(node.start_point[0] + 1, words, incomplete)


def _set_once(root: Node) -> dict[str, str]:
    """The variables that a script sets once, to a literal."""
    values: dict[str, str | None] = {}
    for node in walk(root):
        if node.type == "variable_assignment":
            name, equals, value = (_word(node, {}) or text_of(node)).partition("=")
            literal = equals and _word(node, {}) is not None and len(value) <= _LONGEST_VALUE
            values[name.removesuffix("+")] = value if literal and name not in values else None
    return {name: value for name, value in values.items() if value is not None}


def _rounds(loop: Node, around: list[dict[str, str]]) -> list[dict[str, str]]:
    """The variables in each round of a loop over literal words."""
    variable = loop.child_by_field_name("variable")
    values = [_word(child, {}) for child in loop.children_by_field_name("value")]
    literal = [value for value in values if value is not None and len(value) <= _LONGEST_VALUE]
    if variable is None or not values or len(literal) < len(values) or len(around) * len(values) > _ROUNDS:
        return around
    return [{**variables, text_of(variable): value} for variables in around for value in literal]


def _from_argument(command: ShellCommand, depth: int) -> Iterator[ShellCommand]:
    """The commands of `bash -c SCRIPT`."""
    program, *args = command.words
    if program.rpartition("/")[2] not in SHELLS or depth >= _DEEPEST:
        return
    for place, option in enumerate(args[:-1]):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            yield from _inner_commands(args[place + 1].replace('\\"', '"'), command.line, depth)
            return


def _from_heredoc(statement: Node, depth: int) -> Iterator[ShellCommand]:
    """The commands of `bash <<EOF`."""
    body = statement.child_by_field_name("body")
    if body is None or body.type != "command":
        return
    words = _words_of(body, {}).words
    if not words or words[0].rpartition("/")[2] not in SHELLS:
        return
    for redirect in statement.children_by_field_name("redirect"):
        for part in redirect.children if redirect.type == "heredoc_redirect" else ():
            if part.type == "heredoc_body":
                yield from _inner_commands(text_of(part), part.start_point[0] + 1, depth)


def _inner_commands(text: str, line: int, depth: int) -> Iterator[ShellCommand]:
    for command in commands(text, depth + 1):
        yield command._replace(line=command.line + line - 1)


def walk(root: Node) -> Iterator[Node]:
    """The nodes of a syntax tree in the order of the text, without recursion and up to a limit."""
    left = [root]
    for _ in range(_NODES):
        if not left:
            return
        node = left.pop()
        yield node
        left += reversed(node.children)


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _word(node: Node, values: _Variables) -> str | None:
    """The value of a word; None if it is known only at run time."""
    if node.type in ("command_name", "concatenation", "variable_assignment"):
        parts = [
            text_of(part) if part.type in ("variable_name", "=") else _word(part, values) for part in node.children
        ]
        return None if None in parts else "".join(part or "" for part in parts)
    if node.type == "string":
        inner = [_word(part, values) for part in node.children if part.type != '"']
        return None if None in inner else "".join(part or "" for part in inner)
    if node.type in ("simple_expansion", "expansion"):
        name = next((text_of(part) for part in node.named_children if part.type == "variable_name"), "")
        return values.get(name) if text_of(node) in (f"${name}", f"${{{name}}}") else None
    if node.type == "string_content":
        return text_of(node)
    if node.type == "raw_string":
        return text_of(node)[1:-1]
    if node.type in ("word", "number", "export", "declare", "local", "readonly"):
        return text_of(node).replace("\\\n", "").replace("\\", "")
    return None


# Options of `pip install` with a value that a requirements file can also have.
_PIP_LINES = {
    **{"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c", "-e": "-e", "--editable": "-e"},
    **{"-f": "--find-links", "--find-links": "--find-links", "-i": "--index-url", "--index-url": "--index-url"},
    "--extra-index-url": "--extra-index-url",
}
# pip's other options with a value.
_PIP_IGNORED = {
    "-t", "--target", "-d", "--root", "--prefix", "--src", "--upgrade-strategy", "--platform", "--python-version",
    "--implementation", "--abi", "--no-binary", "--only-binary", "--progress-bar", "--global-option", "--proxy",
    "--install-option", "--cache-dir", "--log", "--timeout", "--default-timeout", "--retries", "--trusted-host",
    "--cert", "--client-cert", "-p", "--python", "--config-settings", "-C", "--root-user-action", "--report",
    "--keyring-provider", "--exists-action", "--use-feature", "--use-deprecated",
}  # fmt: skip
_CONDA_IGNORED = {"--name", "--prefix", "--channel", "--solver", "--clone"}
_CONDA_FLAGS = ("n", "p", "c")  # with a value, as the last one of `-yn NAME`
_APT_IGNORED = {"-t", "--target-release", "-o", "--option", "-c"}
_WRAPPERS = {"sudo", "env", "exec", "time", "command", "travis_retry", "-E", "-H", "yes", "%env"}
# Programs whose `run` starts another program in an environment, and their options with a value.
_RUNNERS = {"conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "uv", "hatch"}
_RUN_OPTIONS = {"-n", "--name", "-p", "--prefix", "--cwd", "--with", "--python"}
_XARGS_OPTIONS = {"-n", "-L", "-P", "-I", "-a", "-d"}
_SYSTEM = ("apt", "apt-get", "aptitude", "yum", "dnf", "microdnf", "zypper", "brew")
# Words of commands that install something, including commands that no reader understands.
_INSTALLS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("pip", "pipx", "gem", "go", "cargo", "make", "ninja", *_SYSTEM), ("install",)),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("install", "create", "env")),
    **dict.fromkeys(("poetry", "pdm", "uv", "apk"), ("add",)),
    **{"npm": ("install", "ci"), "cmake": ("--install",), "dpkg": ("-i", "--install"), "git": ("clone",)},
}
# Files that state what an image needs: their installs that cannot be read are reported.
_ASKED = ("dockerfile", "script", "devcontainer", "repo2docker")
_SHOWN = 100
_ARCHIVES = (".whl", ".gz", ".zip")
_TRIED = {
    "python", "python3", "pytest", "bash", "sh", "make", "torchrun", "accelerate", "deepspeed", "nosetests", "tox",
}  # fmt: skip


def script_statements(file: SourceFile, runs: bool = False) -> Statements:
    """The statements of a script. With `runs`, commands that run the repository's programs are listed too.

    An install that cannot be read is reported as unread if the file states what an image needs.
    """
    asks = file.format in _ASKED and file.scope == "run"
    for line, words, incomplete in commands(file.text):
        program, args = _unwrapped(words)
        statements = list(_command(file, line, words, program, args, runs))
        yield from statements
        if asks and (incomplete or not statements) and _installs(program, args, incomplete):
            what = "runs" if program in SHELLS else "installs"
            yield file.states("unread", f"what this {what}: {' '.join(words)[:_SHOWN]}", line)


def _unwrapped(words: list[str]) -> tuple[str, list[str]]:
    """The program that a command starts, and its arguments. `python -m pip` and `uv pip` are pip."""
    place, most = 0, len(words) - 1
    while place < most:
        word, following = words[place].rpartition("/")[2], words[place + 1]
        if word in _WRAPPERS or _is_assignment(words[place]):
            place += 1
        elif word == "xargs" or (word in _RUNNERS and following == "run"):
            place += 1 if word == "xargs" else 2
            while place < most and words[place].startswith("-"):
                place += 2 if words[place] in (_XARGS_OPTIONS if word == "xargs" else _RUN_OPTIONS) else 1
        else:
            break
    program, args = "".join(words[place : place + 1]).rpartition("/")[2], words[place + 1 :]
    if program.startswith("python") and args[:2] == ["-m", "pip"]:
        return "pip", args[2:]
    if (program == "uv" and args[:1] == ["pip"]) or (program.startswith("python") and args[:1] == ["-mpip"]):
        return "pip", args[1:]
    return "pip" if program.startswith("pip") and program[3:].replace(".", "").isdigit() else program, args


def _installs(program: str, args: list[str], incomplete: bool) -> bool:
    """Whether a command installs anything but the repository itself."""
    if program in SHELLS:
        return incomplete
    if not any(word in args for word in _INSTALLS.get(program, ())):
        return program == "Rscript" and any("install" in word for word in args)
    paths = [word for word in args if "/" in word or word.startswith(".")] if program == "pip" else []
    return incomplete or not paths or any(word.startswith("/") and word.endswith(_ARCHIVES) for word in paths)


def _command(file: SourceFile, line: int, words: list[str], program: str, args: list[str], runs: bool) -> Statements:
    if program == "pip" and "install" in args and (args[0] == "install" or args[0].startswith("-")):
        place = args.index("install")  # options may come before it
        lines = "\n".join(_requirements([*args[:place], *args[place + 1 :]]))
        yield from requirement_statements(file.part(lines, line), one_line=True)
    elif program in ("conda", "mamba", "micromamba") and args[:1] in (["install"], ["create"], ["env"]):
        yield from _conda(file, line, args)
    elif program in ("apt", "apt-get", "aptitude") and "install" in args:
        for name in _plain(args[args.index("install") + 1 :], _APT_IGNORED):
            yield file.states("apt", name, line)
            if name.startswith("python3.") and name.removeprefix("python3.").isdigit():
                yield file.states("python", f"=={name.removeprefix('python')}.*", line)
    elif program == "git" and args[:1] == ["clone"]:
        for address in (word for word in args[1:] if word.startswith("https://")):
            yield file.states("source", address, line)
    elif program in ("export", "ENV"):
        for word in words if program != "export" else args:
            if _is_assignment(word) and "$" not in word:
                yield file.states("env", word, line)
    elif runs and program in _TRIED and args:
        yield file.states("command", " ".join(words), line)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _requirements(words: list[str]) -> Iterator[str]:
    """The arguments of `pip install` as lines of a requirements file."""
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if word in _PIP_LINES:
            yield f"{_PIP_LINES[word]} {next(left, '')}"
        elif equals and name in _PIP_LINES and name.startswith("--"):
            yield f"{_PIP_LINES[name]} {value}"
        elif word in _PIP_IGNORED:
            next(left, "")
        elif not word.startswith(("-", "<", ">")):
            yield word


def _conda(file: SourceFile, line: int, words: list[str]) -> Statements:
    left = iter(words[1:])
    for word in left:
        short = word.startswith("-") and not word.startswith("--")
        if word == "--file" or (word == "-f" and words[0] == "env"):
            yield file.states("include", next(left, ""), line)
        elif word in _CONDA_IGNORED or (short and word.endswith(_CONDA_FLAGS)):
            next(left, "")
        elif not word.startswith("-") and words[0] != "env":
            yield from conda_statements(file, word, line)


def _plain(words: list[str], ignored: set[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word in ignored:
            next(left, "")
        elif not word.startswith("-"):
            yield word
