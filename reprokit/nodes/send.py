"""Images sent to several nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass
from pathlib import Path

from reprokit.config.nodes import Node
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError
from reprokit.image import trust
from reprokit.nodes.delivery import Delivery, NameTaken, NodeProgress
from reprokit.nodes.packing import Packing, PackingStopped, image_to_send
from reprokit.nodes.remote_staging import sender_id
from reprokit.nodes.spool import Spool
from reprokit.oci.read import Progress


@dataclass(frozen=True)
class Outcome:
    """The result for a node: the bytes of layers sent now, whether it had everything, or the error."""

    node: str
    sent: int = 0
    had: bool = False
    error: ReprokitError | None = None


def send(
    engine: Engine,
    names: Sequence[str],
    nodes: Sequence[Node],
    folder: Path,
    replace: bool,
    watch: Callable[[Sequence[NodeProgress]], None],
    packing_progress: Progress,
) -> list[Outcome]:
    """Send the engine's images of these names to all nodes; returns one outcome a node, in order.

    `folder` keeps packed layers until all nodes have them. A node that has another image of a name is skipped with the
    error `NameTaken`, unless `replace`. `watch` and `packing_progress` are called from several threads. Raises
    UsageError where an image is missing, EngineError where the local engine fails.
    """
    images = [image_to_send(engine, name) for name in names]
    sender = sender_id(folder)
    with Spool(folder / "spool") as spool:
        packing = Packing(engine, images, spool, len(nodes))
        shown: list[NodeProgress] = []
        deliveries = [Delivery(node, packing, folder, sender, replace, lambda: watch(shown)) for node in nodes]
        shown += [delivery.progress for delivery in deliveries]
        with ThreadPoolExecutor(len(nodes)) as pool:
            futures = [pool.submit(delivery.run) for delivery in deliveries]
            try:
                packing.pack(packing_progress)
                wait_for_all(futures)
            except BaseException:
                packing.end()
                for delivery in deliveries:
                    delivery.stop()
                raise
        for delivery in deliveries:
            for image, there in zip(images, delivery.loaded, strict=False):
                if there != image.id and trust.known(image.id):
                    # A containerd store has another ID for the same image.
                    where = f"ssh://{delivery.node.name}"
                    trust.record(engine, there, trust.state(image.id), "send", where)
        outcomes = [_outcome(d.progress, future) for d, future in zip(deliveries, futures, strict=True)]
        if not any(outcome.error for outcome in outcomes):
            spool.clear()
    return outcomes


def raise_for(outcomes: Sequence[Outcome]) -> None:
    """Raises the error of a single node, or one that names all failed nodes of several."""
    failed = [outcome for outcome in outcomes if outcome.error]
    if not failed:
        return
    first = failed[0].error
    assert first
    if len(outcomes) == 1:
        raise first
    kind = type(first) if all(type(o.error) is type(first) for o in failed) else SourceError
    names = ", ".join(outcome.node for outcome in failed)
    hint = first.hint if kind is NameTaken else "repeat the command to resume"
    raise kind(f"{len(failed)} of {len(outcomes)} nodes lack the images: {names}", hint=hint)


def _outcome(progress: NodeProgress, future: Future[bool]) -> Outcome:
    try:
        return Outcome(progress.node, progress.sent, had=not future.result())
    except PackingStopped:
        return Outcome(progress.node, progress.sent, error=SourceError("the layers could not be packed", progress.node))
    except ReprokitError as error:
        return Outcome(progress.node, progress.sent, error=error)
