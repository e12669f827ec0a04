"""Plain files by their addresses."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from reprokit.config.templates import file_fields, filled
from reprokit.errors import SourceError
from reprokit.recipe.model import Data, RecipeFile, Variant
from reprokit.supply.fetch.download import Measure
from reprokit.supply.fetch.http import Client, Refusal, Settings, judge
from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, SbomEntry, Tools, UpstreamChange, content_key
from reprokit.supply.lock.model import PlainFile, VariantLock
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.site import Content, Site
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors

_AT_ONCE = 8


class Files(Kind):
    def resolved_from(self, request: InputRequest) -> list[Any]:
        return [[file.name, file.urls, file.sha256] for file in request.target.variant.files]

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        return {file.name for file in variant.files}

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        files = (lock_file(file, tools.mirrors) for file in request.target.variant.files)
        return {"files": tuple(files)}

    def upstream_changes(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[UpstreamChange]:
        return changed_files(lock.files, tools.mirrors.settings)

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        """Each mirror for each of the file's own addresses, then those themselves."""
        fields = {"name": locked.name, "sha256": locked.sha256}
        for mirror in mirrors.configuration.of("files"):
            for parts in file_fields(locked.urls):
                yield from filled([mirror], {**fields, **parts})
        yield from locked.urls

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        for file in lock.files:
            qualifiers = {"download_url": file.urls[0], "checksum": f"sha256:{file.sha256}"}
            yield SbomEntry("generic", None, file.name, None, qualifiers, file.sha256, "file")

    def server(self, entries: Sequence[PlainFile]) -> InputServer:
        def contents(store: Store) -> dict[str, Content]:
            return {file.name: store.path(file.sha256) for file in entries}

        return Site("files", content_key(entries), contents, declared=bool(entries))


KIND = Files("files", "files")


def lock_file(file: RecipeFile | Data, mirrors: Mirrors) -> PlainFile:
    """A file with its checksum and size. It is downloaded if the recipe has no checksum.

    Raises SourceError naming the file if no address has it, or if its checksum differs from the recipe's.
    """
    fields = {"name": file.name, **({"sha256": file.sha256} if file.sha256 else {})}
    urls = list(mirrors.urls(LockedInput("files", file.name, file.sha256 or "", 0, fields, tuple(file.urls))))
    try:
        with Measure(mirrors) as measure:
            sha256, size = measure(urls, file.sha256)
    except SourceError as error:
        raise SourceError(f"{file.name}: {error.message}", error.where, error.hint) from None
    return PlainFile(name=file.name, sha256=sha256, size=size, urls=tuple(file.urls))


def changed_files(files: Sequence[PlainFile], settings: Settings) -> list[UpstreamChange]:
    """Files that no address has any more, and those that have another size at one, sorted."""

    def change_of(file: PlainFile) -> UpstreamChange | None:
        unanswered, answered = [], False
        for url in file.urls:
            try:
                with client.ask(url, method="HEAD") as answer:
                    total = judge(answer.status, answer.headers, 0, None, time.time()).total
                    if total not in (None, file.size):
                        return UpstreamChange("files", file.name, f"{file.size} bytes", f"{total} bytes", "changed")
                    answered = True
            except Refusal as refusal:
                if not refusal.gone:
                    unanswered.append(f"{url}: {refusal.why}")
        if answered:
            return None
        upstream = "; ".join(unanswered)
        return UpstreamChange("files", file.name, file.sha256, upstream, "unknown" if upstream else "vanished")

    with Client(settings) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        return sorted(filter(None, pool.map(change_of, files)))
