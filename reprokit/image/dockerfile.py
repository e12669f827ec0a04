"""A Dockerfile as operations that change files, and the settings of the resulting image.

Read as BuildKit reads it (github.com/moby/buildkit, frontend/dockerfile), with a port of its parser. An instruction
depends on the settings of its stage's base, and never on the result of a step, so a stage is evaluated before its first
step runs. Unsupported instructions are refused with their line.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from e2b_dockerfile_utils import (
    DockerfileInstruction,
    ShellLex,
    chomp_heredoc_content,
    parse_dockerfile_ast,
    parse_heredoc,
)

from reprokit.errors import UsageError

# https://docs.docker.com/reference/dockerfile/#predefined-args
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
PROXIES = frozenset(_PROXIES) | frozenset(map(str.upper, _PROXIES))
_SHELL = ("/bin/sh", "-c")
_STAGE_NAME = re.compile(r"[a-z][a-z0-9-_.]*")
# `${NAME#a*b*c}` becomes a regular expression, whose time grows with the power of its stars.
_MOST_STARS = 3
_LONGEST = 1 << 20
_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@dataclass(frozen=True)
class Instruction:
    """`flags` are `--name=value` in order, `words` as the parser returns them, `text` the instruction on one line."""

    name: str
    flags: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    is_json: bool
    heredocs: tuple[Heredoc, ...]
    line: int
    text: str


@dataclass(frozen=True)
class Heredoc:
    name: str
    content: str
    expands: bool


@dataclass(frozen=True)
class Stage:
    """`base` is an image or an earlier stage, before variables are replaced."""

    name: str
    base: str
    platform: str
    instructions: tuple[Instruction, ...]
    line: int


@dataclass(frozen=True)
class Dockerfile:
    """`arguments` are the ARG instructions before the first FROM."""

    arguments: tuple[Instruction, ...]
    stages: tuple[Stage, ...]
    escape: str


@dataclass(frozen=True)
class Mount:
    """`RUN --mount`: `origin` is a stage or an image, "" the context."""

    kind: str
    target: str
    source: str = ""
    origin: str = ""
    id: str = ""
    mode: int | None = None
    user: int = 0
    group: int = 0
    readonly: bool = False
    required: bool = False
    variable: str = ""


@dataclass(frozen=True)
class Operation:
    """What one instruction does to files; `line` and `text` are the instruction's."""

    line: int = field(compare=False)
    text: str = field(compare=False)

    @property
    def key(self) -> dict[str, Any]:
        """What the result depends on besides the files before it."""
        return {"does": type(self).__name__, **asdict(self), "line": 0, "text": ""}


@dataclass(frozen=True)
class Run(Operation):
    """A command with its complete environment. `script` is a file that it executes, by its path."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    user: str
    mounts: tuple[Mount, ...] = ()
    network: str = ""
    script: tuple[str, str] | None = None


@dataclass(frozen=True)
class Copy(Operation):
    """`origin` is a stage or an image, "" the context. `texts` are files by name that the Dockerfile contains.

    With `unpacks` (ADD) archives of the context are unpacked, and sources may be addresses.
    """

    sources: tuple[str, ...]
    target: str
    folder: str
    origin: str = ""
    owner: str = ""
    mode: str = ""
    parents: bool = False
    exclude: tuple[str, ...] = ()
    unpacks: bool = False
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MakeFolder(Operation):
    """WORKDIR makes its folder."""

    path: str
    user: str


def parse(text: str, where: str = "Dockerfile") -> Dockerfile:
    """Parse a Dockerfile. Raises UsageError with the line at fault."""
    if len(text) > _LONGEST:
        raise UsageError(f"a Dockerfile of {len(text)} characters is too long", where)
    try:
        tree = parse_dockerfile_ast(text)
        instructions = [_instruction(node) for node in tree.instructions]
    except ValueError as error:
        line = getattr(error, "line", None)
        message = re.sub(r"^Dockerfile parse error( on line \d+)?: ", "", str(error))
        raise UsageError(message[:300], f"{where}:{line}" if line else where) from None
    arguments = []
    stages: list[Stage] = []
    for instruction in instructions:
        if instruction.name == "FROM":
            stages.append(_stage(instruction, where))
        elif stages:
            stages[-1] = replace(stages[-1], instructions=(*stages[-1].instructions, instruction))
        elif instruction.name == "ARG":
            arguments.append(instruction)
        else:
            raise UsageError(f"{instruction.name} comes before the first FROM", f"{where}:{instruction.line}")
    if not stages:
        raise UsageError("the Dockerfile has no FROM", where)
    return Dockerfile(tuple(arguments), tuple(stages), tree.escape_token)


def trigger(text: str, line: int, where: str) -> Instruction:
    """The instruction of an ONBUILD, at the line of its FROM or ONBUILD."""
    try:
        (node,) = parse_dockerfile_ast(text).instructions
    except ValueError:
        raise UsageError(f"an ONBUILD cannot be read: {text[:100]}", f"{where}:{line}") from None
    if node.name in ("ONBUILD", "FROM", "MAINTAINER"):
        raise UsageError(f"{node.name} is not allowed as an ONBUILD", f"{where}:{line}")
    return replace(_instruction(node), line=line)


def _instruction(node: DockerfileInstruction) -> Instruction:
    flags = tuple((name.removeprefix("--"), value) for name, _, value in (flag.partition("=") for flag in node.flags))
    heredocs = tuple(
        Heredoc(h.name, chomp_heredoc_content(h.content) if h.chomp else h.content, h.expand) for h in node.heredocs
    )
    text = " ".join(node.original.split()) if node.name != "RUN" else node.original.strip()
    return Instruction(node.name, flags, tuple(node.args), node.json, heredocs, node.start_line, text)


def _stage(instruction: Instruction, where: str) -> Stage:
    at = f"{where}:{instruction.line}"
    words = instruction.words
    flags = dict(instruction.flags)
    if flags.keys() - {"platform"}:
        raise UsageError(f"FROM has no option --{min(flags.keys() - {'platform'})}", at)
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].lower() != "as"):
        raise UsageError("FROM is written FROM IMAGE or FROM IMAGE AS NAME", at)
    name = words[2].lower() if len(words) == 3 else ""
    if name and (not _STAGE_NAME.fullmatch(name) or name in ("context", "scratch")):
        raise UsageError(f"{name[:100]!r} cannot be the name of a stage", at)
    return Stage(name, words[0], flags.get("platform", ""), (), instruction.line)


class Words:
    """Replaces variables in the words of one Dockerfile."""

    def __init__(self, dockerfile: Dockerfile, where: str) -> None:
        self._escape, self.where = dockerfile.escape, where

    def word(self, text: str, variables: Mapping[str, str], line: int) -> str:
        """A word without quotes, its variables replaced. Raises UsageError."""
        self._check(text, line)
        try:
            return ShellLex(self._escape, env=variables, skip_unset_env=False).process_word(text)
        except ValueError as error:
            raise UsageError(str(error)[:300], f"{self.where}:{line}") from None

    def words(self, text: str, variables: Mapping[str, str], line: int) -> list[str]:
        """As `word`, split if a variable's value has spaces."""
        self._check(text, line)
        try:
            return ShellLex(self._escape, env=variables, skip_unset_env=False).process_words(text)
        except ValueError as error:
            raise UsageError(str(error)[:300], f"{self.where}:{line}") from None

    def content(self, text: str, variables: Mapping[str, str], line: int) -> str:
        """The content of a heredoc, where quotes are ordinary characters."""
        self._check(text, line)
        lex = ShellLex(self._escape, env=variables, skip_unset_env=False, skip_process_quotes=True, raw_escapes=False)
        try:
            return lex.process_word(text)
        except ValueError as error:
            raise UsageError(str(error)[:300], f"{self.where}:{line}") from None

    def _check(self, text: str, line: int) -> None:
        for pattern in re.findall(r"\$\{\w+(?:#|%|/)([^}]*)", text):
            if pattern.count("*") > _MOST_STARS:
                raise UsageError(f"a pattern has more than {_MOST_STARS} stars", f"{self.where}:{line}")


def global_arguments(
    dockerfile: Dockerfile, words: Words, given: Mapping[str, str], platform: Mapping[str, str]
) -> dict[str, str]:
    """The values of the arguments that FROM may use."""
    values = dict(platform)
    for instruction in dockerfile.arguments:
        for text in instruction.words:
            name, equals, default = text.partition("=")
            value = given.get(name, words.word(default, values, instruction.line) if equals else None)
            if value is not None:
                values[name] = value
    return values


@dataclass
class Settings:
    """An image's settings, as `config` of the OCI image specification has them, and the history that made them.

    `arguments` are the build arguments of the stage, which no image keeps. `history` has texts, and whether each made a
    layer.
    """

    config: dict[str, Any]
    arguments: dict[str, str] = field(default_factory=dict)
    author: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, _, value in (entry.partition("=") for entry in self.config.get("Env") or ())}

    @property
    def variables(self) -> dict[str, str]:
        """The variables of instructions and steps: an ENV wins over an ARG of the same name."""
        return {**self.arguments, **self.environment}

    @property
    def folder(self) -> str:
        return str(self.config.get("WorkingDir") or "/")

    @property
    def shell(self) -> tuple[str, ...]:
        return tuple(self.config.get("Shell") or _SHELL)

    def copy(self) -> Settings:
        return Settings(json.loads(json.dumps(self.config)), dict(self.arguments), self.author)


class Evaluation:
    """The operations of one stage; `settings` are those of its base, and become the stage's.

    `given` are build arguments, `globals` those before FROM.
    """

    def __init__(
        self, stage: Stage, settings: Settings, words: Words, given: Mapping[str, str], globals_: Mapping[str, str]
    ) -> None:
        self.stage, self.settings, self._words, self._given, self._globals = stage, settings, words, given, globals_
        self._line = stage.line

    def operations(self) -> Iterator[tuple[Instruction, Operation | None]]:
        """Each instruction with its operation on files, if any. Raises UsageError."""
        triggers = self.settings.config.pop("OnBuild", None) or []
        before = [trigger(str(text), self.stage.line, self._words.where) for text in triggers]
        for instruction in (*before, *self.stage.instructions):
            self._line = instruction.line
            perform = getattr(self, f"_{instruction.name.lower()}", None)
            if perform is None:
                raise self._error(f"{instruction.name} is not supported")
            yield instruction, perform(instruction)

    def _error(self, message: str, hint: str = "") -> UsageError:
        return UsageError(message, f"{self._words.where}:{self._line}", hint)

    def _word(self, text: str) -> str:
        return self._words.word(text, self.settings.variables, self._line)

    def _flags(self, instruction: Instruction, allowed: Sequence[str], several: Sequence[str] = ()) -> dict[str, str]:
        flags: dict[str, str] = {}
        for name, value in instruction.flags:
            if name not in allowed:
                raise self._error(f"{instruction.name} has no option --{name[:60]}")
            if name in flags and name not in several:
                raise self._error(f"{instruction.name} has --{name} twice")
            flags[name] = value
        return flags

    def _boolean(self, name: str, flags: Mapping[str, str]) -> bool:
        value = flags.get(name, "false").lower()
        if value not in ("", "true", "false", "1", "0"):
            raise self._error(f"--{name} is {value[:60]!r}, not true or false")
        return value in ("", "true", "1")

    def _pairs(self, instruction: Instruction) -> Iterator[tuple[str, str]]:
        variables = self.settings.variables
        for at in range(0, len(instruction.words), 3):
            name, value, _ = instruction.words[at : at + 3]
            yield (
                self._words.word(name, variables, self._line),
                self._words.word(value, variables, self._line),
            )

    def _words_of(self, instruction: Instruction, least: int = 1) -> list[str]:
        variables = self.settings.variables
        if instruction.is_json:
            words = [self._words.word(word, variables, self._line) for word in instruction.words]
        else:
            words = [part for word in instruction.words for part in self._words.words(word, variables, self._line)]
        if len(words) < least:
            raise self._error(f"{instruction.name} has too few words")
        return words

    def _value(self, instruction: Instruction) -> str:
        if len(instruction.words) != 1:
            raise self._error(f"{instruction.name} takes one value")
        return self._word(instruction.words[0])

    # Settings.

    def _arg(self, instruction: Instruction) -> None:
        if not instruction.words:
            raise self._error("ARG needs a name")
        for text in instruction.words:
            name, equals, default = text.partition("=")
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise self._error(f"{name[:60]!r} cannot be the name of an ARG")
            value = self._given.get(name)
            if value is None and equals:
                value = self._word(default)
            if value is None:
                value = self._globals.get(name)
            if value is not None:
                self.settings.arguments[name] = value

    def _env(self, instruction: Instruction) -> None:
        variables = self.settings.environment
        for name, value in self._pairs(instruction):
            if not name or "\0" in name + value:
                raise self._error("a variable of ENV has no name")
            variables[name] = value
        self.settings.config["Env"] = [f"{name}={value}" for name, value in variables.items()]

    def _label(self, instruction: Instruction) -> None:
        self.settings.config["Labels"] = {
            **(self.settings.config.get("Labels") or {}),
            **dict(self._pairs(instruction)),
        }

    def _maintainer(self, instruction: Instruction) -> None:
        self.settings.author = self._value(instruction)

    def _user(self, instruction: Instruction) -> None:
        self.settings.config["User"] = self._value(instruction)

    def _shell(self, instruction: Instruction) -> None:
        if not instruction.is_json or not instruction.words:
            raise self._error("SHELL needs a JSON list of words")
        self.settings.config["Shell"] = list(instruction.words)

    def _command(self, instruction: Instruction) -> list[str]:
        return list(instruction.words) if instruction.is_json else [*self.settings.shell, " ".join(instruction.words)]

    def _cmd(self, instruction: Instruction) -> None:
        self.settings.config["Cmd"] = self._command(instruction)

    def _entrypoint(self, instruction: Instruction) -> None:
        if not self._sets_command:  # the base's Cmd was for the base's entry point
            self.settings.config.pop("Cmd", None)
        self.settings.config["Entrypoint"] = self._command(instruction) if instruction.words else None

    @property
    def _sets_command(self) -> bool:
        own = (instruction for instruction in self.stage.instructions if instruction.line < self._line)
        return any(instruction.name == "CMD" for instruction in own)

    def _stopsignal(self, instruction: Instruction) -> None:
        self.settings.config["StopSignal"] = self._value(instruction)

    def _expose(self, instruction: Instruction) -> None:
        ports = {**(self.settings.config.get("ExposedPorts") or {})}
        for text in self._words_of(instruction):
            match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?(?:/(tcp|udp|sctp))?", text.lower())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            if not match or not 1 <= first <= last <= 65535:
                raise self._error(f"{text[:60]!r} is not a port")
            ports |= {f"{port}/{match[3] or 'tcp'}": {} for port in range(first, last + 1)}
        self.settings.config["ExposedPorts"] = ports

    def _volume(self, instruction: Instruction) -> None:
        volumes = {**(self.settings.config.get("Volumes") or {})}
        self.settings.config["Volumes"] = volumes | {text: {} for text in self._words_of(instruction)}

    def _healthcheck(self, instruction: Instruction) -> None:
        options = ("interval", "timeout", "start-period", "start-interval", "retries")
        flags = self._flags(instruction, options)
        kind, *command = instruction.words or ("",)
        if kind.upper() == "NONE" and not command and not flags:
            self.settings.config["Healthcheck"] = {"Test": ["NONE"]}
            return
        if kind.upper() != "CMD" or not command:
            raise self._error("HEALTHCHECK is written HEALTHCHECK CMD COMMAND or HEALTHCHECK NONE")
        check: dict[str, Any] = {"Test": ["CMD", *command] if instruction.is_json else ["CMD-SHELL", command[0]]}
        for name in options[:-1]:
            if name in flags:
                key = "".join(part.capitalize() for part in name.split("-"))
                check[key] = self._duration(flags[name])
        if "retries" in flags:
            if not re.fullmatch(r"\d{1,4}", flags["retries"]):
                raise self._error("--retries needs a number")
            check["Retries"] = int(flags["retries"])
        self.settings.config["Healthcheck"] = check

    def _duration(self, text: str) -> int:
        parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", text)
        if not parts or "".join(a + b for a, b in parts) != text:
            raise self._error(f"{text[:60]!r} is not a duration such as 1m30s")
        return int(sum(float(number) * _NANOSECONDS[unit] for number, unit in parts))

    def _onbuild(self, instruction: Instruction) -> None:
        text = re.sub(r"(?i)^\s*onbuild\s+", "", instruction.text)
        trigger(text, instruction.line, self._words.where)
        self.settings.config["OnBuild"] = [*(self.settings.config.get("OnBuild") or []), text]

    # Operations.

    def _workdir(self, instruction: Instruction) -> Operation:
        path = posixpath.normpath(posixpath.join("/", self.settings.folder, self._value(instruction)))
        self.settings.config["WorkingDir"] = path = "/" + path.lstrip("/")
        return MakeFolder(instruction.line, instruction.text, path, "")

    def _run(self, instruction: Instruction) -> Operation:
        flags = self._flags(instruction, ("mount", "network", "security"), several=("mount",))
        if flags.get("security", "sandbox") != "sandbox":
            raise self._error("steps have no privileges: --security=insecure is not supported")
        network = flags.get("network", "default")
        if network not in ("default", "none"):
            raise self._error(f"steps have no network of their own: --network={network[:60]} is not supported")
        if not instruction.words or not "".join(instruction.words).strip():
            raise self._error("RUN has no command")
        script = None
        if instruction.is_json:
            arguments = instruction.words
        else:
            command = instruction.words[0]
            if instruction.heredocs and parse_heredoc(command.strip()) is not None:
                command = instruction.heredocs[0].content
                if command.startswith("#!"):
                    script = (f"/dev/pipes/{instruction.heredocs[0].name}", command)
            elif instruction.heredocs:
                command += "".join(f"\n{heredoc.content}{heredoc.name}" for heredoc in instruction.heredocs)
            arguments = (script[0],) if script else (*self.settings.shell, command)
        mounts = tuple(self._mount(value) for name, value in instruction.flags if name == "mount")
        variables = {name: value for name, value in self.settings.variables.items() if name not in PROXIES}
        user, folder = str(self.settings.config.get("User") or ""), self.settings.folder
        return Run(instruction.line, instruction.text, arguments, variables, folder, user, mounts, network, script)

    def _mount(self, text: str) -> Mount:
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            name = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}.get(name, name)
            if name == "rw":
                name, value = "readonly", "false"
            fields[name] = self._word(value) if equals else "true"
        kind = fields.pop("type", "bind")
        own = {
            "bind": {"target", "source", "from", "readonly"},
            "cache": {"id", "target", "source", "from", "readonly", "sharing", "mode", "uid", "gid"},
            "tmpfs": {"target", "size"},
            "secret": {"id", "target", "source", "required", "mode", "uid", "gid", "env"},
        }.get(kind)
        if own is None:
            raise self._error(f"a mount of the type {kind[:60]!r} is not supported")
        if unknown := sorted(fields.keys() - own):
            raise self._error(f"a mount of the type {kind} has no {unknown[0][:60]!r}")
        for name, form in (("uid", r"\d{1,9}"), ("gid", r"\d{1,9}"), ("mode", r"[0-7]{1,4}")):
            if name in fields and not re.fullmatch(form, fields[name]):
                raise self._error(f"{name} of a mount must be a number")
        name = fields.get("id", "")
        if kind == "secret":
            name = name or posixpath.basename(fields.get("source") or fields.get("target", ""))
        target = fields.get("target") or (f"/run/secrets/{name}" if kind == "secret" and "env" not in fields else "")
        if target and not target.startswith("/"):
            target = posixpath.join(self.settings.folder, target)
        if not target and "env" not in fields:
            raise self._error("a mount needs a target")
        return Mount(
            kind,
            posixpath.normpath(target) if target else "",
            "" if kind == "secret" else fields.get("source", ""),
            fields.get("from", ""),
            name or target,
            int(fields["mode"], 8) if fields.get("mode") else None,
            int(fields.get("uid", 0)),
            int(fields.get("gid", 0)),
            self._boolean("readonly", fields) or (kind == "bind" and "readonly" not in fields),
            self._boolean("required", fields),
            fields.get("env", ""),
        )

    def _copy(self, instruction: Instruction) -> Operation:
        flags = self._flags(instruction, ("from", "chown", "chmod", "link", "parents", "exclude"), several=("exclude",))
        return self._copied(instruction, flags)

    def _add(self, instruction: Instruction) -> Operation:
        options = ("chown", "chmod", "link", "exclude", "unpack")
        return self._copied(instruction, self._flags(instruction, options, several=("exclude",)))

    def _copied(self, instruction: Instruction, flags: Mapping[str, str]) -> Operation:
        *sources, target = self._words_of(instruction, least=2)
        texts = []
        if instruction.heredocs:
            names = {heredoc.name for heredoc in instruction.heredocs}
            sources = [text for text in sources if (word := parse_heredoc(text)) is None or word.name not in names]
            variables = self.settings.variables
            for heredoc in instruction.heredocs:
                content = heredoc.content
                if heredoc.expands:
                    content = self._words.content(content, variables, self._line)
                texts.append((heredoc.name, content))
        self._boolean("link", flags)  # accepted without effect
        is_add = instruction.name == "ADD"
        return Copy(
            instruction.line,
            instruction.text,
            tuple(sources),
            target,
            self.settings.folder,
            self._word(flags.get("from", "")),
            self._word(flags.get("chown", "")),
            self._word(flags.get("chmod", "")),
            self._boolean("parents", flags),
            tuple(self._word(value) for name, value in instruction.flags if name == "exclude"),
            is_add and ("unpack" not in flags or self._boolean("unpack", flags)),
            tuple(texts),
        )
