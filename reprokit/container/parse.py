"""Parse the options of `run` and `shell`. Pure: the caller checks that files exist."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from reprokit import paths
from reprokit.container.settings import Port
from reprokit.errors import UsageError
from reprokit.formatting import parse_size
from reprokit.host.mounts import BindMount
from reprokit.untrusted import files

_MOUNT_HINT = "write -v SOURCE:/PATH/IN/CONTAINER or -v SOURCE:/PATH:ro"
_PORT_HINT = "write -p HOST:CONTAINER or -p ADDRESS:HOST:CONTAINER, for example -p 8888:8888"
_MOST = 1 << 20  # bytes of an environment file
_SMALLEST_SHM = 1 << 16  # bytes: `8` for `8g` is the usual mistake
_SMALLEST_MEMORY = 64 << 20


def mount(text: str, cwd: Path | None) -> BindMount:
    """`SRC:DST[:ro|:rw]`; SRC may be relative to `cwd`, which is None for another machine. Raises UsageError."""
    parts = utf8(text, f"-v {text!r}").split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"-v {text!r} is not a mount", hint=_MOUNT_HINT)
    if len(parts) == 3 and parts[2] not in ("ro", "rw"):
        raise UsageError(f"-v {text!r}: {parts[2]!r} is not ro or rw", hint=_MOUNT_HINT)
    target = posixpath.normpath("/" + parts[1].strip("/"))
    if not parts[1].startswith("/") or ".." in parts[1].split("/") or target == "/":
        raise UsageError(f"-v {text!r}: {parts[1]!r} is not an absolute path inside the container", hint=_MOUNT_HINT)
    try:
        source = str((cwd / paths.expanded(parts[0])).resolve()) if cwd else parts[0]
    except (OSError, RuntimeError) as error:  # a loop of links
        raise UsageError(f"-v {text!r}: {error}", hint=_MOUNT_HINT) from None
    return BindMount(source, target, read_only=parts[-1] == "ro" and len(parts) == 3)


def port(text: str) -> Port:
    """`[ADDRESS:]HOST:CONTAINER[/udp]`, or one number for both; on 127.0.0.1 unless an address is given."""
    match = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[0-9.]+):)?(\d+):(\d+)(?:/(tcp|udp))?", text)
    match = match or re.fullmatch(r"()(\d+)()(?:/(tcp|udp))?", text)
    if match is None:
        raise UsageError(f"-p {text!r} is not a port", hint=_PORT_HINT)
    address = (match[1] or "127.0.0.1").strip("[]")
    host, inside = int(match[2]), int(match[3] or match[2])
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(f"-p {text!r}: {address!r} is not an IP address", hint=_PORT_HINT) from None
    for number in (host, inside):
        if not 1 <= number <= 65535:
            raise UsageError(f"-p {text!r}: {number} is not a port number (1 to 65535)", hint=_PORT_HINT)
    return Port(address, host, inside, match[4] or "tcp")


def utf8(text: str, what: str) -> str:
    """Return `text`. Raises UsageError if it is not valid UTF-8, which the engine's JSON API requires."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} is not valid UTF-8, as the engine needs", hint="put it into a file") from None
    return text


def environment(texts: list[str], caller: Mapping[str, str]) -> dict[str, str]:
    """Parse `K=V`, or `K` for the caller's value (as in docker, ignored without one). Raises UsageError."""
    variables: dict[str, str] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"-e {text!r}: {name!r} is not a variable's name", hint="write -e NAME=VALUE or -e NAME")
        if given or name in caller:
            variables[name] = utf8(value if given else caller[name], f"the value of -e {name}")
    return variables


def environment_file(path: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """The variables of a file with lines as docker's: `K=V` or `K`, and comments after `#`. Raises UsageError.

    No error shows a line of the file, which may be a secret.
    """
    try:
        lines = files.read(path, _MOST).decode("utf-8-sig").split("\n")  # values may contain other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read --env-file: {getattr(error, 'strerror', 'not a text')}", str(path)) from None
    variables: dict[str, str] = {}
    for number, line in enumerate((line.removesuffix("\r") for line in lines), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                variables |= environment([line.lstrip()], caller)
            except UsageError:
                raise UsageError("this line is not NAME=VALUE in UTF-8", f"{path}:{number}") from None
    return variables


def shm_size(text: str) -> int:
    """Bytes of `--shm-size`. Raises UsageError."""
    return _size("--shm-size", text, _SMALLEST_SHM, "to be useful", "8g")


def memory(text: str) -> int:
    """Bytes of `--memory`. Raises UsageError."""
    return _size("--memory", text, _SMALLEST_MEMORY, "for a step", "16g")


def _size(option: str, text: str, least: int, purpose: str, example: str) -> int:
    hint = f"for example {option} {example}"
    try:
        count = parse_size(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=hint) from None
    if count < least:
        raise UsageError(f"{option} {text!r} is too small {purpose}", hint=hint)
    return count


def user(text: str) -> str:
    """`NAME`, `UID`, or either with `:GROUP`. Raises UsageError."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?", text):
        raise UsageError(f"--user {text!r} is not a user", hint="write --user root, --user 1000 or --user 1000:1000")
    return text


def name(text: str) -> str:
    """A container's name as engines allow it. Raises UsageError."""
    if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,120}", text):
        raise UsageError(
            f"--name {text!r} is not a container name", hint="use 2 to 121 letters, digits, `-`, `_` and `.`"
        )
    return text
