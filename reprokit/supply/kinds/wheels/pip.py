"""The host's pip: its configuration, and the versions that indexes have.

pip runs isolated and from a neutral folder, so that no file of the current folder is imported.
"""

from __future__ import annotations

import ast
import bisect
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from reprokit.errors import SourceError
from reprokit.host.command import Flood, exchanged
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.untrusted.limits import PROGRAM_OUTPUT

_NEUTRAL = "/"
# Later sections win, as for `pip download`.
_SECTIONS = ("global", "download", ":env:")
_NEAREST = 4  # versions that a message names
_TRUE = ("1", "true", "yes", "y", "on", "t")  # as pip reads a boolean


@dataclass(frozen=True)
class PipSettings:
    """pip's settings for finding files; paths are `file://` addresses here.

    `index` is empty with `no-index`; `own_index` is true for pip's default index. Addresses may hold credentials: show
    them only through `redact`.
    """

    index: str = field(default="", repr=False)
    own_index: bool = False
    extra_indexes: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = field(default="", repr=False)

    @property
    def indexes(self) -> tuple[str, ...]:
        """All simple indexes, in pip's order."""
        return (self.index, *self.extra_indexes) if self.index else self.extra_indexes


def read_settings() -> PipSettings:
    """The settings of `pip config list`: environment, user's, site's and global files, in pip's own order.

    Raises SourceError if pip is missing or cannot read its configuration.
    """
    done = _run(str(_package()), "--disable-pip-version-check", "config", "list")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise SourceError(f"pip cannot read its configuration: {last}", hint="see `pip config debug`")
    settings = settings_of(done.stdout)
    return replace(settings, index=_default_index()) if settings.own_index else settings


def _default_index() -> str:
    """The simple index of a pip without settings, which its help text shows. Raises SourceError."""
    text = _run(str(_package()), "help", "download", variables={"COLUMNS": "1000"}).stdout
    default = re.search(r"--index-url <url>\s.*?\(default:?\s+(https://[^\s)]+)\)", text, re.DOTALL)
    if default is None:
        raise SourceError("pip's help does not show its default index", hint="set `index-url` in pip's configuration")
    return default[1].rstrip("/")


def settings_of(listing: str) -> PipSettings:
    """`pip config list` as settings; `index` is empty if no setting names one."""
    values: dict[str, str] = {}
    for section in _SECTIONS:
        for line in listing.splitlines():
            key, equals, value = line.partition("=")
            if equals and key.rpartition(".")[0] == section:
                text = str(ast.literal_eval(value)).strip()
                if text:  # pip takes an empty setting for none
                    values[key.rpartition(".")[2]] = text
    no_index = values.get("no-index", "").lower() in _TRUE
    return PipSettings(
        index="" if no_index else _address(values.get("index-url", "")),
        own_index=not no_index and "index-url" not in values,
        extra_indexes=() if no_index else _addresses(values, "extra-index-url"),
        find_links=_addresses(values, "find-links"),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        cert=values.get("cert", ""),
        client_cert=values.get("client-cert", ""),
        proxy=values.get("proxy", ""),
    )


def _addresses(values: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(_address(text) for text in values.get(key, "").split())


def _address(text: str) -> str:
    """An address as it is, a path as `file://`."""
    if not text or "://" in text:
        return text
    return Path(text).expanduser().absolute().as_uri()


def versions(
    requirement: str, platform: Platform, indexes: Sequence[str], variables: Mapping[str, str] = {}
) -> list[str]:
    """The versions with a wheel that fits, newest first; empty if no index answers.

    `variables` are added to pip's environment.
    """
    command = [str(_package()), "--disable-pip-version-check", "--no-input", "index", "versions"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={platform.python}"]
    command += [f"--platform={tag}" for tag in platform.tags()]
    command += [f"--extra-index-url={index}" for index in indexes]
    command += ["--", re.split(r"[=<>!~\[; ]", requirement, maxsplit=1)[0]]
    listed = re.search(r"^Available versions: (.*)$", _run(*command, variables=variables).stdout, re.MULTILINE)
    return listed[1].split(", ") if listed else []


def _package() -> Path:
    """The folder of this Python's pip, never in the current folder. Raises SourceError."""
    current = Path.cwd()
    spec = PathFinder.find_spec("pip", [folder for folder in sys.path if folder and Path(folder).resolve() != current])
    if spec is None or spec.origin is None:
        raise SourceError("this Python has no pip", sys.executable, "install reprokit again, which needs pip")
    return Path(spec.origin).parent


def _run(*arguments: str, variables: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    if file := environment.get("PIP_CONFIG_FILE"):
        environment["PIP_CONFIG_FILE"] = str(Path(file).absolute())
    return run_limited([sys.executable, "-I", *arguments], environment, _NEUTRAL)


def run_limited(
    command: Sequence[str], environment: Mapping[str, str], folder: str
) -> subprocess.CompletedProcess[str]:
    """Run pip or uv, which print data of an index. Raises SourceError if that is too much."""
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, err = exchanged(process, b"", None, PROGRAM_OUTPUT.most)
        except Flood:
            raise SourceError(f"an index makes {command[0]} print more than {PROGRAM_OUTPUT.most >> 20} MiB") from None
        finally:
            process.kill()
    return subprocess.CompletedProcess(
        command, process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )


def nearest_versions(requirement: str, versions: list[str]) -> list[str]:
    """Up to 4 of `versions` around the pinned one of `requirement`, or the newest without a pin."""
    releases = sorted({v for text in versions if (v := _version(text))})
    try:
        pinned = [v for s in Requirement(requirement).specifier if (v := _version(s.version))]
    except InvalidRequirement:
        pinned = []
    if not pinned:
        return [str(v) for v in releases[-_NEAREST:]]
    position = bisect.bisect(releases, pinned[0])
    start = max(0, min(position - _NEAREST // 2, len(releases) - _NEAREST))
    return [str(v) for v in releases[start : start + _NEAREST]]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
