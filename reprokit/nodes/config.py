"""The nodes in the user's configuration, reprokit's and ssh's."""

from __future__ import annotations

import contextlib
import glob
import shlex
from collections.abc import Iterator
from pathlib import Path

from reprokit import config
from reprokit.config.nodes import Node, parse_node

_MOST_INCLUDES = 16  # ssh's own limit


def ssh_names() -> list[str]:
    """Hosts of the user's ssh configuration without patterns; none if it cannot be read."""
    folder = Path.home() / ".ssh"
    return list(dict.fromkeys(_hosts(folder / "config", folder, _MOST_INCLUDES)))


def known_names() -> list[str]:
    """All names of nodes that need no address."""
    return list(dict.fromkeys([*(node.name for node in config.load().nodes), *ssh_names()]))


def find(text: str, jump: str = "") -> Node:
    """A configured node by its name, else an address or a host of ssh. Raises UsageError.

    `jump` overrides the configured one.
    """
    for node in config.load().nodes:
        if node.name == text:
            return Node(node.name, node.host, node.user, node.port, jump or node.jump)
    return parse_node(text, jump=jump)


def _hosts(file: Path, folder: Path, depth: int) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            words = shlex.split(line.replace("=", " ", 1), comments=True)
        except ValueError:
            continue
        keyword = words[0].lower() if words else ""
        if keyword == "host":
            yield from (word for word in words[1:] if not set(word) & set("*?!"))
        elif keyword == "include" and depth:
            for pattern in words[1:]:
                # Relative to ~/.ssh, as ssh_config(5) has it.
                with contextlib.suppress(RuntimeError):  # the home of an unknown user
                    pattern = str(Path(pattern).expanduser())
                for path in sorted(glob.glob(str(folder / pattern))):  # noqa: PTH207
                    yield from _hosts(Path(path), folder, depth - 1)
