"""Images sent to several nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reprokit.config.nodes import Node
from reprokit.display import ByteProgress
from reprokit.engine import Engine
from reprokit.errors import SourceError
from reprokit.image import trust
from reprokit.nodes.delivery import Delivery, NameTaken
from reprokit.nodes.packing import Packing, image_to_send
from reprokit.nodes.remote_staging import sender_id
from reprokit.nodes.spool import Spool


def send(
    engine: Engine,
    names: Sequence[str],
    nodes: Sequence[Node],
    folder: Path,
    replace: bool,
    changed: Callable[[Sequence[Delivery]], None],
    packing_progress: ByteProgress,
) -> list[Delivery]:
    """Send the engine's images of these names to all nodes; returns one delivery a node, in order.

    `folder` keeps packed layers until all nodes have them. A node that has another image of a name is skipped with the
    error `NameTaken`, unless `replace`. `changed` and `packing_progress` are called from several threads. Raises
    UsageError if an image is missing, EngineError if the local engine fails.
    """
    images = [image_to_send(engine, name) for name in names]
    sender = sender_id(folder)
    with Spool(folder / "spool") as spool:
        packing = Packing(engine, images, spool, len(nodes))
        deliveries: list[Delivery] = []
        deliveries += [Delivery(node, packing, folder, sender, replace, lambda: changed(deliveries)) for node in nodes]
        with ThreadPoolExecutor(len(nodes)) as pool:
            futures = [pool.submit(delivery.run) for delivery in deliveries]
            try:
                packing.pack(packing_progress)
                for future in futures:
                    future.result()
            except BaseException:
                packing.end()
                for delivery in deliveries:
                    delivery.stop()
                raise
        for delivery in deliveries:
            for image in images:
                there = delivery.loaded.get(image.name, image.id)
                if there != image.id and trust.known(image.id):
                    # A containerd store has another ID for the same image.
                    where = f"ssh://{delivery.node.name}"
                    trust.record(engine, there, trust.state(image.id), "send", where)
        if not any(delivery.error for delivery in deliveries):
            spool.clear()
    return deliveries


def raise_for(deliveries: Sequence[Delivery]) -> None:
    """Raises the error of a single node, or one that names all failed nodes of several."""
    failed = {delivery.node.name: delivery.error for delivery in deliveries if delivery.error}
    if not failed:
        return
    first, *others = failed.values()
    if len(deliveries) == 1:
        raise first
    kind = type(first) if all(type(error) is type(first) for error in others) else SourceError
    hint = first.hint if kind is NameTaken else "repeat the command to resume"
    raise kind(f"{len(failed)} of {len(deliveries)} nodes lack the images: {', '.join(failed)}", hint=hint)
