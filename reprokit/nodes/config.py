"""The nodes in the user's configuration of reprokit and ssh, and in the words of a command."""

from __future__ import annotations

import contextlib
import glob
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from reprokit import config
from reprokit.config.nodes import Node, parse_node
from reprokit.errors import UsageError
from reprokit.recipe.find import is_recipe, recipe_names, target
from reprokit.recipe.spelling import nearest

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
                # Patterns are relative to ~/.ssh (ssh_config(5)).
                with contextlib.suppress(RuntimeError):  # the home of an unknown user
                    pattern = str(Path(pattern).expanduser())
                for path in sorted(glob.glob(str(folder / pattern))):  # noqa: PTH207
                    yield from _hosts(Path(path), folder, depth - 1)


def images_and_nodes(
    words: Sequence[str], to: Iterable[str], jump: str, has_image: Callable[[str], bool]
) -> tuple[list[str], list[Node]]:
    """The names of images on the engine, and the nodes; every word of `to` is a node.

    A word is a node if it has an @, or if the configuration of reprokit or ssh names it; an image if a recipe or an
    image has this name. Raises UsageError if it is neither or both, or if no image or no node is named.
    """
    node_names = known_names()
    images: list[str] = []
    nodes = [find(text, jump) for text in to]
    for word in words:
        image = _image(word, has_image)
        is_node = word in node_names or ("@" in word and not image)
        if image and is_node:
            raise UsageError(
                f"{word!r} is both the image {image} and a node", hint=f"as a node: --to {word}; as an image: {image}"
            )
        if is_node:
            nodes.append(find(word, jump))
        elif image:
            images.append(image)
        else:
            close = nearest(word, [*recipe_names(), *node_names])
            raise UsageError(
                f"{word!r} is neither a recipe, an image of the engine nor a known node{close}",
                hint=f"for a host that no configuration names: --to {word}; `reprokit list` shows the recipes",
            )
    for named, what in ((images, "image"), (nodes, "node")):
        if not named:
            raise UsageError(f"no {what} is named", hint="reprokit send NAME[:VARIANT]... NODE...")
    return list(dict.fromkeys(images)), list(dict.fromkeys(nodes))


def _image(word: str, has_image: Callable[[str], bool]) -> str:
    """The image's name on the engine, "" if the word is not an image."""
    if is_recipe(word):
        return f"reprokit/{target(word).label}"
    address = "@" in word and "@sha256:" not in word
    return word if not address and has_image(word) else ""
