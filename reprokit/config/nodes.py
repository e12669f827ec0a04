"""The addresses of nodes, as users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from reprokit.errors import UsageError
from reprokit.untrusted.model import FrozenModel

_HINT = "a node is user@host, user@host:port, or a name of the ssh configuration"
_ADDRESS = re.compile(r"(?:(?P<user>.+)@)?(?P<host>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::(?P<port>\d+))?")


@dataclass(frozen=True)
class Node:
    """A machine that ssh reaches. Empty fields and port 0 come from the user's ssh configuration.

    `jump` is the argument of `ssh -J`: hosts on the way, with commas between them.
    """

    name: str
    host: str
    user: str = ""
    port: int = 0
    jump: str = ""


def parse_node(text: str, name: str = "", jump: str = "") -> Node:
    """Parse `[user@]host[:port]`, IPv6 addresses in brackets; `name` is by default the text.

    Raises UsageError.
    """
    match = _ADDRESS.fullmatch(text)
    # ssh would read a leading dash as an option.
    if not match or text.startswith("-") or match["host"].startswith("-") or not text.isprintable():
        raise UsageError(f"{text!r} is not an address of a node", hint=_HINT)
    port = int(match["port"] or 0)
    if port > 65535:
        raise UsageError(f"{text!r}: no such port: {port}", hint=_HINT)
    for step in filter(None, jump.split(",")):
        parse_node(step)
    return Node(name or text, match["host"].strip("[]"), match["user"] or "", port, jump)


def _as_written(value: Any) -> Any:
    return {"address": value or ""} if value is None or isinstance(value, str) else value


class _Written(FrozenModel):
    address: str = ""
    jump: str = ""


def _valid(written: dict[str, _Written]) -> dict[str, _Written]:
    try:
        nodes_of(written)
    except UsageError as error:
        raise ValueError(f"{error.message}: {error.hint}") from None
    return written


# `nodes:` of the user's configuration: a name with an address, with `{address: ..., jump: ...}`, or with nothing if
# ssh's configuration has the name.
WrittenNodes = Annotated[dict[str, Annotated[_Written, BeforeValidator(_as_written)]], AfterValidator(_valid)]


def nodes_of(written: WrittenNodes) -> tuple[Node, ...]:
    """The nodes of `nodes:` in the configuration. Raises UsageError."""
    return tuple(parse_node(entry.address or name, name, entry.jump) for name, entry in written.items())
