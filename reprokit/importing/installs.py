"""What the commands of a script install: pip, conda, apt, git and the environment that they set."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.importing import shell
from reprokit.importing.conda import conda_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements

# Options of `pip install` with a value; what they name matters only where a requirements file may hold it too.
_PIP_LINES = {
    **{"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c", "-e": "-e", "--editable": "-e"},
    **{"-f": "--find-links", "--find-links": "--find-links", "-i": "--index-url", "--index-url": "--index-url"},
    "--extra-index-url": "--extra-index-url",
}
_PIP_IGNORED = {
    *("-t", "--target", "-d", "--root", "--prefix", "--src", "--upgrade-strategy", "--platform", "--python-version"),
    *("--implementation", "--abi", "--no-binary", "--only-binary", "--progress-bar", "--global-option", "--proxy"),
    *(
        "--install-option",
        "--cache-dir",
        "--log",
        "--timeout",
        "--retries",
        "--trusted-host",
        "--cert",
        "-p",
        "--python",
    ),
    *("--config-settings", "-C", "--default-timeout"),
}
_CONDA_IGNORED = {"-n", "--name", "-p", "--prefix", "--solver"}
_APT_IGNORED = {"-t", "--target-release", "-o", "--option", "-c"}
_WRAPPERS = {"sudo", "env", "exec", "time", "command", "travis_retry", "-E", "-H", "yes", "%env"}
_TRIED = {
    "python",
    "python3",
    "pytest",
    "bash",
    "sh",
    "make",
    "torchrun",
    "accelerate",
    "deepspeed",
    "nosetests",
    "tox",
}


def script_statements(file: SourceFile, runs: bool = False) -> Statements:
    """The statements of a script. With `runs`, commands that run the repository's programs are listed too."""
    for line, words in shell.commands(file.text):
        while words and (words[0] in _WRAPPERS or (_is_assignment(words[0]) and len(words) > 1)):
            words = words[1:]
        yield from _command(file, line, words, runs)


def _command(file: SourceFile, line: int, words: list[str], runs: bool) -> Statements:
    program = words[0].rpartition("/")[2] if words else ""
    rest = words[1:]
    if program.startswith("python") and rest[:2] in (["-m", "pip"], ["-mpip"]):
        program, rest = "pip", rest[2:]
    elif program == "uv" and rest[:1] == ["pip"]:
        program, rest = "pip", rest[1:]
    elif program.startswith("pip") and program.removeprefix("pip").replace(".", "").isdigit():
        program = "pip"
    if program == "pip" and rest[:1] == ["install"]:
        lines = "\n".join(_requirements(rest[1:]))
        yield from requirement_statements(file.part(lines, line), one_line=True)
    elif program in ("conda", "mamba", "micromamba") and rest[:1] in (["install"], ["create"], ["env"]):
        yield from _conda(file, line, rest)
    elif program in ("apt", "apt-get", "aptitude") and "install" in rest:
        for name in _plain(rest[rest.index("install") + 1 :], _APT_IGNORED):
            yield file.states("apt", name, line)
    elif program == "git" and rest[:1] == ["clone"]:
        for address in (word for word in rest[1:] if word.startswith("https://")):
            yield file.states("source", address, line)
    elif program in ("export", "ENV") or (len(words) == 1 and _is_assignment(words[0])):
        for word in words if program != "export" else rest:
            if _is_assignment(word) and "$" not in word:
                yield file.states("env", word, line)
    elif runs and program in _TRIED and rest:
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
        if word in ("-f", "--file") and words[0] == "env":
            yield file.states("include", next(left, ""), line)
        elif word in ("-c", "--channel") or word in _CONDA_IGNORED:
            next(left, "")
        elif not word.startswith("-") and word not in ("create", "update"):
            yield from conda_statements(file, word, line)


def _plain(words: list[str], ignored: set[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word in ignored:
            next(left, "")
        elif not word.startswith("-"):
            yield word
