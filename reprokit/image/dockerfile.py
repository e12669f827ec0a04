"""A Dockerfile as operations: what changes files, and the settings of the image that results.

Read as BuildKit reads it (github.com/moby/buildkit, frontend/dockerfile), with a port of its parser. What an
instruction does depends on the settings of the image it begins at, and on nothing that a step does; so all of a stage
is known before its first step runs. What cannot be run is refused by its line.
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
    """`flags` are `--name=value` in order, `words` as the parser returns them, `text` the whole on one line."""

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
    """Raises UsageError with the line of what cannot be read."""
    if len(text) > _LONGEST:
        raise UsageError(f"a Dockerfile of {len(text)} characters is too long", where)
    try:
        tree = parse_dockerfile_ast(text)
        found = [_instruction(each) for each in tree.instructions]
    except ValueError as error:
        line = getattr(error, "line", None)
        what = re.sub(r"^Dockerfile parse error( on line \d+)?: ", "", str(error))
        raise UsageError(what[:300], f"{where}:{line}" if line else where) from None
    arguments = []
    stages: list[Stage] = []
    for each in found:
        if each.name == "FROM":
            stages.append(_stage(each, where))
        elif stages:
            stages[-1] = replace(stages[-1], instructions=(*stages[-1].instructions, each))
        elif each.name == "ARG":
            arguments.append(each)
        else:
            raise UsageError(f"{each.name} comes before the first FROM", f"{where}:{each.line}")
    if not stages:
        raise UsageError("the Dockerfile has no FROM", where)
    return Dockerfile(tuple(arguments), tuple(stages), tree.escape_token)


def trigger(text: str, line: int, where: str) -> Instruction:
    """The instruction of an ONBUILD, at the line of the FROM or ONBUILD that brings it."""
    try:
        (found,) = parse_dockerfile_ast(text).instructions
    except ValueError:
        raise UsageError(f"an ONBUILD cannot be read: {text[:100]}", f"{where}:{line}") from None
    if found.name in ("ONBUILD", "FROM", "MAINTAINER"):
        raise UsageError(f"{found.name} is not allowed as an ONBUILD", f"{where}:{line}")
    return replace(_instruction(found), line=line)


def _instruction(each: DockerfileInstruction) -> Instruction:
    flags = tuple((name.removeprefix("--"), value) for name, _, value in (flag.partition("=") for flag in each.flags))
    heredocs = tuple(
        Heredoc(h.name, chomp_heredoc_content(h.content) if h.chomp else h.content, h.expand) for h in each.heredocs
    )
    text = " ".join(each.original.split()) if each.name != "RUN" else each.original.strip()
    return Instruction(each.name, flags, tuple(each.args), each.json, heredocs, each.start_line, text)


def _stage(each: Instruction, where: str) -> Stage:
    at = f"{where}:{each.line}"
    words = each.words
    flags = dict(each.flags)
    if flags.keys() - {"platform"}:
        raise UsageError(f"FROM has no option --{min(flags.keys() - {'platform'})}", at)
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].lower() != "as"):
        raise UsageError("FROM is written FROM IMAGE or FROM IMAGE AS NAME", at)
    name = words[2].lower() if len(words) == 3 else ""
    if name and (not _STAGE_NAME.fullmatch(name) or name in ("context", "scratch")):
        raise UsageError(f"{name[:100]!r} cannot be the name of a stage", at)
    return Stage(name, words[0], flags.get("platform", ""), (), each.line)


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
        """The content of a heredoc: quotes are nothing special."""
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
    found = dict(platform)
    for each in dockerfile.arguments:
        for text in each.words:
            name, equals, default = text.partition("=")
            value = given.get(name, words.word(default, found, each.line) if equals else None)
            if value is not None:
                found[name] = value
    return found


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
        return {name: value for name, _, value in (each.partition("=") for each in self.config.get("Env") or ())}

    @property
    def variables(self) -> dict[str, str]:
        """What instructions and steps see: an ENV wins over an ARG of the same name."""
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
        """Each instruction with what it does to files, if it does. Raises UsageError."""
        triggers = self.settings.config.pop("OnBuild", None) or []
        before = [trigger(str(text), self.stage.line, self._words.where) for text in triggers]
        for each in (*before, *self.stage.instructions):
            self._line = each.line
            perform = getattr(self, f"_{each.name.lower()}", None)
            if perform is None:
                raise self._error(f"{each.name} is not supported")
            yield each, perform(each)

    def _error(self, what: str, hint: str = "") -> UsageError:
        return UsageError(what, f"{self._words.where}:{self._line}", hint)

    def _word(self, text: str) -> str:
        return self._words.word(text, self.settings.variables, self._line)

    def _flags(self, each: Instruction, known: Sequence[str], several: Sequence[str] = ()) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in each.flags:
            if name not in known:
                raise self._error(f"{each.name} has no option --{name[:60]}")
            if name in found and name not in several:
                raise self._error(f"{each.name} has --{name} twice")
            found[name] = value
        return found

    def _boolean(self, name: str, flags: Mapping[str, str]) -> bool:
        value = flags.get(name, "false").lower()
        if value not in ("", "true", "false", "1", "0"):
            raise self._error(f"--{name} is {value[:60]!r}, not true or false")
        return value in ("", "true", "1")

    def _pairs(self, each: Instruction) -> Iterator[tuple[str, str]]:
        variables = self.settings.variables
        for at in range(0, len(each.words), 3):
            name, value, _ = each.words[at : at + 3]
            yield (
                self._words.word(name, variables, self._line),
                self._words.word(value, variables, self._line),
            )

    def _words_of(self, each: Instruction, least: int = 1) -> list[str]:
        variables = self.settings.variables
        if each.is_json:
            found = [self._words.word(word, variables, self._line) for word in each.words]
        else:
            found = [part for word in each.words for part in self._words.words(word, variables, self._line)]
        if len(found) < least:
            raise self._error(f"{each.name} has too few words")
        return found

    def _one(self, each: Instruction) -> str:
        if len(each.words) != 1:
            raise self._error(f"{each.name} has one value")
        return self._word(each.words[0])

    # Settings.

    def _arg(self, each: Instruction) -> None:
        if not each.words:
            raise self._error("ARG has a name")
        for text in each.words:
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

    def _env(self, each: Instruction) -> None:
        found = self.settings.environment
        for name, value in self._pairs(each):
            if not name or "\0" in name + value:
                raise self._error("a variable of ENV has no name")
            found[name] = value
        self.settings.config["Env"] = [f"{name}={value}" for name, value in found.items()]

    def _label(self, each: Instruction) -> None:
        labels = {**(self.settings.config.get("Labels") or {})}
        for name, value in self._pairs(each):
            labels[name] = value
        self.settings.config["Labels"] = labels

    def _maintainer(self, each: Instruction) -> None:
        self.settings.author = self._one(each)

    def _user(self, each: Instruction) -> None:
        self.settings.config["User"] = self._one(each)

    def _shell(self, each: Instruction) -> None:
        if not each.is_json or not each.words:
            raise self._error("SHELL is a JSON list of words")
        self.settings.config["Shell"] = list(each.words)

    def _command(self, each: Instruction) -> list[str]:
        return list(each.words) if each.is_json else [*self.settings.shell, " ".join(each.words)]

    def _cmd(self, each: Instruction) -> None:
        self.settings.config["Cmd"] = self._command(each)

    def _entrypoint(self, each: Instruction) -> None:
        if not self._sets_command:  # the base's Cmd was for the base's entry point
            self.settings.config.pop("Cmd", None)
        self.settings.config["Entrypoint"] = self._command(each) if each.words else None

    @property
    def _sets_command(self) -> bool:
        own = (each for each in self.stage.instructions if each.line < self._line)
        return any(each.name == "CMD" for each in own)

    def _stopsignal(self, each: Instruction) -> None:
        self.settings.config["StopSignal"] = self._one(each)

    def _expose(self, each: Instruction) -> None:
        ports = {**(self.settings.config.get("ExposedPorts") or {})}
        for text in self._words_of(each):
            match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?(?:/(tcp|udp|sctp))?", text.lower())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            if not match or not 1 <= first <= last <= 65535:
                raise self._error(f"{text[:60]!r} is not a port")
            ports |= {f"{port}/{match[3] or 'tcp'}": {} for port in range(first, last + 1)}
        self.settings.config["ExposedPorts"] = ports

    def _volume(self, each: Instruction) -> None:
        volumes = {**(self.settings.config.get("Volumes") or {})}
        self.settings.config["Volumes"] = volumes | {text: {} for text in self._words_of(each)}

    def _healthcheck(self, each: Instruction) -> None:
        known = ("interval", "timeout", "start-period", "start-interval", "retries")
        flags = self._flags(each, known)
        kind, *command = each.words or ("",)
        if kind.upper() == "NONE" and not command and not flags:
            self.settings.config["Healthcheck"] = {"Test": ["NONE"]}
            return
        if kind.upper() != "CMD" or not command:
            raise self._error("HEALTHCHECK is written HEALTHCHECK CMD COMMAND or HEALTHCHECK NONE")
        check: dict[str, Any] = {"Test": ["CMD", *command] if each.is_json else ["CMD-SHELL", command[0]]}
        for name in known[:-1]:
            if name in flags:
                key = "".join(part.capitalize() for part in name.split("-"))
                check[key] = self._duration(flags[name])
        if "retries" in flags:
            if not re.fullmatch(r"\d{1,4}", flags["retries"]):
                raise self._error("--retries is a number")
            check["Retries"] = int(flags["retries"])
        self.settings.config["Healthcheck"] = check

    def _duration(self, text: str) -> int:
        parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", text)
        if not parts or "".join(a + b for a, b in parts) != text:
            raise self._error(f"{text[:60]!r} is not a duration such as 1m30s")
        return int(sum(float(number) * _NANOSECONDS[unit] for number, unit in parts))

    def _onbuild(self, each: Instruction) -> None:
        text = re.sub(r"(?i)^\s*onbuild\s+", "", each.text)
        trigger(text, each.line, self._words.where)
        self.settings.config["OnBuild"] = [*(self.settings.config.get("OnBuild") or []), text]

    # Operations.

    def _workdir(self, each: Instruction) -> Operation:
        path = posixpath.normpath(posixpath.join("/", self.settings.folder, self._one(each)))
        self.settings.config["WorkingDir"] = path = "/" + path.lstrip("/")
        return MakeFolder(each.line, each.text, path, "")

    def _run(self, each: Instruction) -> Operation:
        flags = self._flags(each, ("mount", "network", "security"), several=("mount",))
        if flags.get("security", "sandbox") != "sandbox":
            raise self._error("steps have no privileges: --security=insecure is not supported")
        network = flags.get("network", "default")
        if network not in ("default", "none"):
            raise self._error(f"steps have no network of their own: --network={network[:60]} is not supported")
        if not each.words or not "".join(each.words).strip():
            raise self._error("RUN has no command")
        script = None
        if each.is_json:
            arguments = each.words
        else:
            command = each.words[0]
            if each.heredocs and parse_heredoc(command.strip()) is not None:
                command = each.heredocs[0].content
                if command.startswith("#!"):
                    script = (f"/dev/pipes/{each.heredocs[0].name}", command)
            elif each.heredocs:
                command += "".join(f"\n{each.content}{each.name}" for each in each.heredocs)
            arguments = (script[0],) if script else (*self.settings.shell, command)
        mounts = tuple(self._mount(value) for name, value in each.flags if name == "mount")
        variables = {name: value for name, value in self.settings.variables.items() if name not in PROXIES}
        user, folder = str(self.settings.config.get("User") or ""), self.settings.folder
        return Run(each.line, each.text, arguments, variables, folder, user, mounts, network, script)

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
                raise self._error(f"{name} of a mount is a number")
        name = fields.get("id", "")
        if kind == "secret":
            name = name or posixpath.basename(fields.get("source") or fields.get("target", ""))
        target = fields.get("target") or (f"/run/secrets/{name}" if kind == "secret" and "env" not in fields else "")
        if target and not target.startswith("/"):
            target = posixpath.join(self.settings.folder, target)
        if not target and "env" not in fields:
            raise self._error("a mount has a target")
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

    def _copy(self, each: Instruction) -> Operation:
        flags = self._flags(each, ("from", "chown", "chmod", "link", "parents", "exclude"), several=("exclude",))
        return self._copied(each, flags)

    def _add(self, each: Instruction) -> Operation:
        known = ("chown", "chmod", "link", "exclude", "unpack")
        return self._copied(each, self._flags(each, known, several=("exclude",)))

    def _copied(self, each: Instruction, flags: Mapping[str, str]) -> Operation:
        *sources, target = self._words_of(each, least=2)
        texts = []
        if each.heredocs:
            names = {heredoc.name for heredoc in each.heredocs}
            sources = [each for each in sources if (word := parse_heredoc(each)) is None or word.name not in names]
            variables = self.settings.variables
            for heredoc in each.heredocs:
                content = heredoc.content
                if heredoc.expands:
                    content = self._words.content(content, variables, self._line)
                texts.append((heredoc.name, content))
        self._boolean("link", flags)  # a layer of its own changes nothing here: each is
        is_add = each.name == "ADD"
        return Copy(
            each.line,
            each.text,
            tuple(sources),
            target,
            self.settings.folder,
            self._word(flags.get("from", "")),
            self._word(flags.get("chown", "")),
            self._word(flags.get("chmod", "")),
            self._boolean("parents", flags),
            tuple(self._word(value) for name, value in each.flags if name == "exclude"),
            is_add and ("unpack" not in flags or self._boolean("unpack", flags)),
            tuple(texts),
        )
