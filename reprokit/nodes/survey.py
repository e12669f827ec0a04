"""The facts of `reprokit nodes`, collected from all nodes at once, by one script each, in bounded time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from reprokit.config.nodes import Node
from reprokit.errors import ReprokitError
from reprokit.host.gpu import Gpu
from reprokit.image.labels import ImageLabels
from reprokit.image.lock.read import Freshness, freshness
from reprokit.nodes import inventory, probe
from reprokit.nodes.inventory import Inventory, NodeImage
from reprokit.nodes.probe import NodeFacts
from reprokit.nodes.ssh import SshConnection, last_line
from reprokit.recipe.find import recipe_names
from reprokit.recipe.find import target as find_target

_AT_ONCE = 32


@dataclass(frozen=True)
class NodeAnswer:
    """The answer of a node. Unknown parts are None, and `error` says why."""

    node: Node
    seen: NodeFacts | None = None
    inventory: Inventory | None = None
    error: str = ""


def survey(nodes: Sequence[Node], limit_s: float) -> Iterator[NodeAnswer]:
    """Every node's answer, in the order of `nodes`, after twice `limit_s` seconds at most."""
    connections = [SshConnection(node, limit_s) for node in nodes]
    with ThreadPoolExecutor(min(_AT_ONCE, len(nodes) or 1)) as pool:
        try:
            yield from pool.map(lambda connection: ask(connection, limit_s), connections)
        except BaseException:
            # Closing the connections ends the threads, so that Ctrl-C does not wait for nodes that are down.
            pool.shutdown(wait=False, cancel_futures=True)
            for connection in connections:
                connection.close()
            raise


def ask(connection: SshConnection, limit_s: float) -> NodeAnswer:
    """Connect to a node and run the script; each has `limit_s` seconds."""
    node = connection.node
    try:
        with connection:
            done = connection.run(f"({probe.SCRIPT}{probe.RUNNING})\n{inventory.SCRIPT}", limit_s=limit_s)
    except ReprokitError as error:
        return NodeAnswer(node, error=error.message)
    try:
        seen = probe.parse(done.stdout)
    except ValueError as error:
        return NodeAnswer(node, error=str(error))
    if done.returncode:
        return NodeAnswer(node, seen, error=f"no engine: {last_line(done.stderr)}")
    try:
        found = inventory.parse(done.stdout, node.name)
    except ReprokitError as error:
        return NodeAnswer(node, seen, error=error.message)
    return NodeAnswer(node, seen, found, "nvidia-smi does not answer" if seen.hung else "")


@dataclass(frozen=True)
class RecipeImage:
    """A recipe's image on a node. `freshness` compares it with the recipe and lock here, "" if there is none.

    It is `unknown` if a file that the recipe names cannot be read.
    """

    label: str
    id: str
    freshness: Freshness | str


def images(node_images: Sequence[NodeImage]) -> list[RecipeImage]:
    """The images that reprokit built, by name."""
    found = []
    for image in node_images:
        labels = image.labels or {}
        label = ImageLabels.read(labels).target
        if f"reprokit/{label}" in image.tags:
            found.append(RecipeImage(label, image.id, _freshness(label, labels)))
    return sorted(found, key=lambda image: image.label)


def _freshness(label: str, labels: Mapping[str, str]) -> Freshness | str:
    try:
        target = find_target(label) if label.partition(":")[0] in recipe_names() else None
    except ReprokitError:  # an unreadable recipe, or one without this variant
        return ""
    try:
        return freshness(target, labels) if target else ""
    except ReprokitError:
        return "unknown"


def as_json(answer: NodeAnswer) -> dict[str, Any]:
    """The answer as JSON: sizes in bytes, null for unknown values."""
    seen, engine = answer.seen, answer.inventory
    return {
        "name": answer.node.name,
        "reachable": seen is not None,
        "error": answer.error or None,
        "nested": seen.nested if seen else None,
        "engine": None if engine is None else engine.version,
        "store": None if engine is None else "containerd" if engine.containerd else engine.storage,
        "free": None if engine is None else engine.free,
        "driver": driver(seen.gpus) or None if seen else None,
        "gpus": [{"name": gpu.name, "compute_capability": gpu.capability} for gpu in seen.gpus if gpu.name]
        if seen
        else None,
        "images": None if engine is None else [vars(image) for image in images(engine.images)],
    }


def driver(gpus: Sequence[Gpu]) -> str:
    """The NVIDIA driver's version, the same for all cards."""
    return next((gpu.driver for gpu in gpus if gpu.driver), "")
