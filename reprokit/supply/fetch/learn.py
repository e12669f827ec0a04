"""The checksum of a file that nobody has locked yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

from reprokit.errors import SourceError
from reprokit.redact import redact
from reprokit.supply.fetch.answers import Refusal
from reprokit.supply.fetch.download import GAIN, place
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.fetch.stop import Stop
from reprokit.supply.fetch.transfer import Slow, Transfer
from reprokit.supply.store import Store, unwritable


def learn(
    urls: Sequence[str],
    store: Store,
    settings: Settings | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[str, int]:
    """Download a file into the store; its sha256 and its size in bytes.

    The first address that gives it whole decides. With no checksum to judge by, a broken download is gone on with only
    where a strong ETag says that the file is still the same, and a file whose length the server does not say is
    refused. Raises SourceError with the last word of every address, EngineError where the store cannot be written.
    """
    chosen, refusals = settings or Settings(), dict[str, Refusal]()
    with Client(chosen) as client, store.scratch() as scratch:
        path = Path(scratch) / "file"
        for url in urls:
            try:
                with Partial(FileIO(path, "w+"), path) as partial:
                    if refusal := _tries(url, partial, client, say):
                        refusals[url] = refusal
                        continue
                    size = partial.offset
                    partial.publish(store)
                    return partial.sha256, size
            except OSError as error:
                raise unwritable(error, store) from None
    words = "; ".join(f"{place(url)}: {refusal.why}" for url, refusal in refusals.items())
    raise SourceError(f"the file cannot be had: {words or 'it has no address'}", redact(urls[0]) if urls else "")


def _tries(url: str, partial: Partial, client: Client, say: Callable[[str], None]) -> Refusal | None:
    """Why the address did not give the file, None if it did."""
    stop, settings = Stop(), client.settings
    idle, furthest = 0, 0
    while True:
        try:
            Transfer(url, partial, None, client, stop, lambda count: None).run()
            return None
        except Refusal as error:
            refusal = error
        gained = partial.offset - furthest >= GAIN and not isinstance(refusal, Slow)
        idle = 0 if gained else idle + 1
        furthest = max(furthest, partial.offset)
        say(f"{redact(url)}: {refusal.why}")
        if not refusal.again or idle >= settings.attempts:
            return refusal
        wait = min(refusal.wait_s or 0.0, settings.longest_wait_s)
        stop.wait(max(wait, settings.backoff_s * 2 ** (idle - 1) if idle else 0.0))
