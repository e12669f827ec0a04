"""The plain files of a recipe in its lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reprokit.errors import SourceError
from reprokit.recipe.model import Data, File
from reprokit.supply.lock.measure import Measure
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.store import Store
from reprokit.supply.want import Want

if TYPE_CHECKING:
    from reprokit.supply.mirrors.places import Mirrors


def lock_file(file: File | Data, store: Store, mirrors: Mirrors, say: Callable[[str], None]) -> PlainFile:
    """A file with its checksum and size. One whose checksum the recipe does not give is downloaded for it.

    Raises SourceError naming the file where no address has it, or where it has another checksum than the recipe says.
    """
    fields = {"name": file.name, **({"sha256": file.sha256} if file.sha256 else {})}
    urls = list(mirrors.urls(Want("files", file.name, file.sha256 or "", 0, fields, tuple(file.urls))))
    try:
        with Measure(store, mirrors.settings, say) as measure:
            sha256, size = measure(urls, file.sha256)
    except SourceError as error:
        raise SourceError(f"{file.name}: {error.message}", error.where, error.hint) from None
    return PlainFile(name=file.name, sha256=sha256, size=size, urls=tuple(file.urls))
