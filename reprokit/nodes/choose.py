"""Which words of a command are images, and which are nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reprokit.config.nodes import Node
from reprokit.errors import UsageError
from reprokit.nodes import config
from reprokit.recipe import find
from reprokit.recipe.spelling import nearest


def images_and_nodes(
    words: Sequence[str], to: Iterable[str], jump: str, has_image: Callable[[str], bool]
) -> tuple[list[str], list[Node]]:
    """The names of images on the engine, and the nodes; every word of `to` is a node.

    A word is a node if it has an @, or if the configuration of reprokit or ssh names it; an image if a recipe or an
    image has this name. Raises UsageError if it is neither or both, or if no image or no node is named.
    """
    known = config.known_names()
    images: list[str] = []
    nodes = [config.find(text, jump) for text in to]
    for word in words:
        image = _image(word, has_image)
        is_node = word in known or ("@" in word and not image)
        if image and is_node:
            raise UsageError(
                f"{word!r} is both the image {image} and a node",
                hint=f"as a node: --to {word}; as an image: {image}",
            )
        if is_node:
            nodes.append(config.find(word, jump))
        elif image:
            images.append(image)
        else:
            close = nearest(word, [*find.recipe_names(), *known])
            raise UsageError(
                f"{word!r} is neither a recipe, an image of the engine nor a known node{close}",
                hint=f"for a host that no configuration names: --to {word}; `reprokit list` shows the recipes",
            )
    for found, what in ((images, "image"), (nodes, "node")):
        if not found:
            raise UsageError(f"no {what} is named", hint="reprokit send NAME[:VARIANT]... NODE...")
    return list(dict.fromkeys(images)), list(dict.fromkeys(nodes))


def _image(word: str, has_image: Callable[[str], bool]) -> str:
    """The image's name on the engine, "" if the word is not an image."""
    if find.is_recipe(word):
        return f"reprokit/{find.target(word).label}"
    address = "@" in word and "@sha256:" not in word
    return word if not address and has_image(word) else ""
