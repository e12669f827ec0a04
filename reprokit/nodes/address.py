"""What a user writes to name a node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from reprokit.errors import UsageError

_HINT = "a node is user@host, user@host:port, or a name of the ssh configuration"
_ADDRESS = re.compile(r"(?:(?P<user>.+)@)?(?P<host>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::(?P<port>\d+))?")


@dataclass(frozen=True)
class Node:
    """A machine that ssh reaches. What is empty or 0 is left to the user's ssh configuration.

    `jump` is what `ssh -J` takes: hosts on the way there, with commas between them.
    """

    name: str
    host: str
    user: str = ""
    port: int = 0
    jump: str = ""


def parse_node(text: str, name: str = "", jump: str = "") -> Node:
    """`[user@]host[:port]`, IPv6 addresses in brackets; known as `name`, by default as it is written.

    Raises UsageError.
    """
    found = _ADDRESS.fullmatch(text)
    # What begins with a dash would be an option to ssh.
    if not found or text.startswith("-") or found["host"].startswith("-") or not text.isprintable():
        raise UsageError(f"{text!r} is no address of a node", hint=_HINT)
    port = int(found["port"] or 0)
    if port > 65535:
        raise UsageError(f"{text!r}: there is no port {port}", hint=_HINT)
    for step in filter(None, jump.split(",")):
        parse_node(step)
    return Node(name or text, found["host"].strip("[]"), found["user"] or "", port, jump)


def _as_written(value: Any) -> Any:
    return {"address": value or ""} if value is None or isinstance(value, str) else value


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = ""
    jump: str = ""


def _valid(written: dict[str, _Written]) -> dict[str, _Written]:
    try:
        nodes_of(written)
    except UsageError as error:
        raise ValueError(f"{error.message}: {error.hint}") from None
    return written


# `nodes:` of the user's configuration: name and address, `{address: ..., jump: ...}`, or nothing where ssh knows it.
WrittenNodes = Annotated[dict[str, Annotated[_Written, BeforeValidator(_as_written)]], AfterValidator(_valid)]


def nodes_of(written: WrittenNodes) -> tuple[Node, ...]:
    """What `nodes:` of the configuration means. Raises UsageError."""
    return tuple(parse_node(each.address or name, name, each.jump) for name, each in written.items())
