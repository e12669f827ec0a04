"""The plain files of a recipe in its lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from reprokit.errors import SourceError
from reprokit.recipe.model import Data, RecipeFile
from reprokit.supply.fetch.answers import Refusal, judge
from reprokit.supply.fetch.http import Client
from reprokit.supply.fetch.settings import Settings
from reprokit.supply.lock.measure import Measure
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.lock.moved import Moved
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.mirrors.places import Mirrors


_AT_ONCE = 8


def lock_file(file: RecipeFile | Data, store: Store, mirrors: Mirrors, say: Callable[[str], None]) -> PlainFile:
    """A file with its checksum and size. One whose checksum the recipe does not give is downloaded for it.

    Raises SourceError naming the file where no address has it, or where it has another checksum than the recipe says.
    """
    fields = {"name": file.name, **({"sha256": file.sha256} if file.sha256 else {})}
    urls = list(mirrors.urls(LockedInput("files", file.name, file.sha256 or "", 0, fields, tuple(file.urls))))
    try:
        with Measure(store, mirrors.settings, say) as measure:
            sha256, size = measure(urls, file.sha256)
    except SourceError as error:
        raise SourceError(f"{file.name}: {error.message}", error.where, error.hint) from None
    return PlainFile(name=file.name, sha256=sha256, size=size, urls=tuple(file.urls))


def moved_files(
    files: Sequence[PlainFile], settings: Settings, say: Callable[[str], None] = lambda line: None
) -> list[Moved]:
    """Files that no address has any more, and those that have another size at one, sorted.

    Addresses that do not answer are told of by `say`.
    """

    def moved(file: PlainFile) -> Moved | None:
        gone = 0
        for url in file.urls:
            try:
                with client.ask(url, method="HEAD") as answer:
                    total = judge(answer.status, answer.headers, 0, None, time.time()).total
                if total not in (None, file.size):
                    return Moved("files", file.name, f"{file.size} bytes", f"{total} bytes", "changed")
            except Refusal as refusal:
                gone += refusal.gone
                if not refusal.gone:
                    say(f"{file.name}: {url}: {refusal.why}")
        return Moved("files", file.name, file.sha256, "", "vanished") if gone == len(file.urls) else None

    with Client(settings) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        return sorted(found for found in pool.map(moved, files) if found)
