"""Images brought to several nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass
from pathlib import Path

from reprokit.bundle.collect import Watch
from reprokit.engine import Engine
from reprokit.errors import ReprokitError, SourceError
from reprokit.image import trust
from reprokit.nodes.address import Node
from reprokit.nodes.delivery import Delivery, Progress, Taken
from reprokit.nodes.incoming import sender_id
from reprokit.nodes.spool import Spool
from reprokit.nodes.supply import Stopped, Supply, local_image


@dataclass(frozen=True)
class Outcome:
    """How it went with a node: `sent` bytes of layers went there now, none where it had everything; or the error."""

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
    watch: Callable[[Sequence[Progress]], None],
    packing: Watch,
) -> list[Outcome]:
    """Bring the engine's images of these names to all nodes, each for itself; returns one outcome a node, in order.

    `folder` keeps packed layers until they have arrived everywhere. A node that has another image of a name is left as
    it is, its error `Taken`, unless `replace`. `watch` and `packing` are told of progress, from several threads. Raises
    UsageError where an image is missing, EngineError where the local engine fails.
    """
    images = [local_image(engine, name) for name in names]
    sender = sender_id(folder)
    with Spool(folder / "spool") as spool:
        supply = Supply(engine, images, spool, len(nodes))
        shown: list[Progress] = []
        deliveries = [Delivery(node, supply, folder, sender, replace, lambda: watch(shown)) for node in nodes]
        shown += [delivery.progress for delivery in deliveries]
        with ThreadPoolExecutor(len(nodes)) as pool:
            futures = [pool.submit(delivery.run) for delivery in deliveries]
            try:
                supply.pack(packing)
                wait_for_all(futures)
            except BaseException:
                supply.end()
                for delivery in deliveries:
                    delivery.stop()
                raise
        for delivery in deliveries:
            for image, there in zip(images, delivery.loaded, strict=False):
                if there != image.id and trust.known(image.id):
                    # Containerd's store has another ID of the same image.
                    where = f"ssh://{delivery.node.name}"
                    trust.record(engine, there, trust.state(image.id), "send", where)
        outcomes = [_outcome(d.progress, future) for d, future in zip(deliveries, futures, strict=True)]
        if not any(outcome.error for outcome in outcomes):
            spool.clear()
    return outcomes


def raise_for(outcomes: Sequence[Outcome]) -> None:
    """Raises the error of a node, or SourceError naming all that have one where several nodes were asked."""
    failed = [outcome for outcome in outcomes if outcome.error]
    if not failed:
        return
    first = failed[0].error
    assert first
    if len(outcomes) == 1:
        raise first
    kind = type(first) if all(type(o.error) is type(first) for o in failed) else SourceError
    names = ", ".join(outcome.node for outcome in failed)
    hint = first.hint if kind is Taken else "repeat the command: what has arrived is not sent again"
    raise kind(f"{len(failed)} of {len(outcomes)} nodes lack the images: {names}", hint=hint)


def _outcome(progress: Progress, future: Future[bool]) -> Outcome:
    try:
        return Outcome(progress.node, progress.sent, had=not future.result())
    except Stopped:
        return Outcome(progress.node, progress.sent, error=SourceError("the layers could not be packed", progress.node))
    except ReprokitError as error:
        return Outcome(progress.node, progress.sent, error=error)
