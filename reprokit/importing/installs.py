"""What the commands of a script install: pip, conda, apt, git and the environment that they set."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.importing import shell
from reprokit.importing.conda import conda_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements

# Options of `pip install` with a value; what they name matters only if a requirements file may hold it too.
_PIP_LINES = {
    **{"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c", "-e": "-e", "--editable": "-e"},
    **{"-f": "--find-links", "--find-links": "--find-links", "-i": "--index-url", "--index-url": "--index-url"},
    "--extra-index-url": "--extra-index-url",
}
# pip's options that are followed by a value.
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
# Programs whose `run` starts another one in an environment, and their options with a value.
_RUNNERS = {"conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "uv", "hatch"}
_RUN_OPTIONS = {"-n", "--name", "-p", "--prefix", "--cwd", "--with", "--python"}
_XARGS_OPTIONS = {"-n", "-L", "-P", "-I", "-a", "-d"}
_SYSTEM = ("apt", "apt-get", "aptitude", "yum", "dnf", "microdnf", "zypper", "brew")
# Words of commands that install something, also of those that nothing is read from.
_INSTALLS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("pip", "pipx", "gem", "go", "cargo", "make", "ninja", *_SYSTEM), ("install",)),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("install", "create", "env")),
    **dict.fromkeys(("poetry", "pdm", "uv", "apk"), ("add",)),
    **{"npm": ("install", "ci"), "cmake": ("--install",), "dpkg": ("-i", "--install"), "git": ("clone",)},
}
# Files that say what an image needs, so that what they install and cannot be read is asked about.
_ASKED = ("dockerfile", "script", "devcontainer", "repo2docker")
_SHOWN = 100
_ARCHIVES = (".whl", ".gz", ".zip")
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
    """The statements of a script. With `runs`, commands that run the repository's programs are listed too.

    An install that cannot be read is unread, if the file says what an image needs.
    """
    asks = file.format in _ASKED and file.scope == "run"
    for line, words, incomplete in shell.commands(file.text):
        program, rest = _unwrapped(words)
        found = list(_command(file, line, words, program, rest, runs))
        yield from found
        if asks and (incomplete or not found) and _installs(program, rest, incomplete):
            what = "runs" if program in shell.SHELLS else "installs"
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
    program, rest = "".join(words[place : place + 1]).rpartition("/")[2], words[place + 1 :]
    if program.startswith("python") and rest[:2] == ["-m", "pip"]:
        return "pip", rest[2:]
    if (program == "uv" and rest[:1] == ["pip"]) or (program.startswith("python") and rest[:1] == ["-mpip"]):
        return "pip", rest[1:]
    return "pip" if program.startswith("pip") and program[3:].replace(".", "").isdigit() else program, rest


def _installs(program: str, rest: list[str], incomplete: bool) -> bool:
    """Whether a command installs something other than the code beside it."""
    if program in shell.SHELLS:
        return incomplete
    if not any(word in rest for word in _INSTALLS.get(program, ())):
        return program == "Rscript" and any("install" in word for word in rest)
    places = [word for word in rest if "/" in word or word.startswith(".")] if program == "pip" else []
    return incomplete or not places or any(word.startswith("/") and word.endswith(_ARCHIVES) for word in places)


def _command(file: SourceFile, line: int, words: list[str], program: str, rest: list[str], runs: bool) -> Statements:
    if program == "pip" and "install" in rest and (rest[0] == "install" or rest[0].startswith("-")):
        place = rest.index("install")  # options may come before it
        lines = "\n".join(_requirements([*rest[:place], *rest[place + 1 :]]))
        yield from requirement_statements(file.part(lines, line), one_line=True)
    elif program in ("conda", "mamba", "micromamba") and rest[:1] in (["install"], ["create"], ["env"]):
        yield from _conda(file, line, rest)
    elif program in ("apt", "apt-get", "aptitude") and "install" in rest:
        for name in _plain(rest[rest.index("install") + 1 :], _APT_IGNORED):
            yield file.states("apt", name, line)
            if name.startswith("python3.") and name.removeprefix("python3.").isdigit():
                yield file.states("python", f"=={name.removeprefix('python')}.*", line)
    elif program == "git" and rest[:1] == ["clone"]:
        for address in (word for word in rest[1:] if word.startswith("https://")):
            yield file.states("source", address, line)
    elif program in ("export", "ENV"):
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
