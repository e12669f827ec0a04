"""All inputs of recipes as one archive, for a node that reaches no network."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from reprokit import __version__
from reprokit.engine import Engine
from reprokit.errors import SourceError, UsageError
from reprokit.host.disk import require_space
from reprokit.image.base.locked import locked_base
from reprokit.image.base.resolve import carried_name
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import Base
from reprokit.supply.store import Store, sha256_of
from reprokit.supply.transfer.claim import claimed, partial_of
from reprokit.supply.transfer.manifest import Entry, File, Image, Manifest, Repository, Text
from reprokit.supply.transfer.repository import pack
from reprokit.supply.transfer.stream import Watch, Writer
from reprokit.supply.upkeep.names import Locked, locked

Say = Callable[[str], None]
EntryOf = TypeVar("EntryOf", Text, File, Repository, Image)
_MOST_NAMED = 5


class _Content:
    """Entries by path, and where their bytes are."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._sources: dict[str, Path | bytes] = {}

    def add(self, entry: Entry, source: Path | bytes) -> None:
        self.entries[entry.path] = entry
        self._sources[entry.path] = source

    def of(self, kind: type[EntryOf]) -> tuple[EntryOf, ...]:
        return tuple(entry for _, entry in sorted(self.entries.items()) if isinstance(entry, kind))

    def open(self, entry: Entry) -> IO[bytes]:
        source = self._sources[entry.path]
        return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def export(
    names: Sequence[str],
    target: Path,
    store: Store,
    connect: Callable[[], Engine],
    say: Say = lambda line: None,
    watch: Watch = lambda done, total: None,
) -> Manifest:
    """Write the inputs of these `NAME[:VARIANT]`s to `target`, whole or not at all.

    The engine is asked only for bases that came from a registry. Equal inputs give equal bytes. For the caller to hold
    `store.in_use()`. Raises UsageError where a lock is missing, SourceError where an input is not in the store or is
    damaged, or where there is no space.
    """
    with _beside(target, say) as out:
        return write(names, out, target.parent, store, connect, say, watch)


def write(
    names: Sequence[str],
    out: IO[bytes],
    folder: Path,
    store: Store,
    connect: Callable[[], Engine],
    say: Say = lambda line: None,
    watch: Watch = lambda done, total: None,
) -> Manifest:
    """As `export`, to a file that is written from where it stands; `folder` is where space for it must be free."""
    chosen = [locked(name) for name in names]
    _all_here(chosen, store)
    with store.scratch() as scratch:
        content = _Content()
        for each in chosen:
            _add_texts(content, each)
            _add_files(content, each, store, say)
            _add_repositories(content, each, store, Path(scratch))
        for base in _registry_bases(chosen):
            _add_image(content, base, connect(), store, Path(scratch), say)
        manifest = Manifest(
            reprokit=__version__,
            targets=tuple(sorted({f"{each.lock.recipe}:{v}" for each in chosen for v in each.variants})),
            texts=content.of(Text),
            files=content.of(File),
            repositories=content.of(Repository),
            images=content.of(Image),
        )
        require_space(manifest.size, folder)
        writer = Writer(out, manifest, watch)
        for entry in manifest.entries:
            with content.open(entry) as source:
                writer.add(entry, source)
        writer.end()
    return manifest


def require_inputs(names: Sequence[str], store: Store) -> None:
    """Raises UsageError where a lock is missing, SourceError where an input is not in the store."""
    _all_here([locked(name) for name in names], store)


def _all_here(chosen: Iterable[Locked], store: Store) -> None:
    for each in chosen:
        wants = {w.sha256: w for v in each.variants for w in each.lock.variants[v].locked_inputs()}
        missing = [w.name for w in wants.values() if not store.path(w.sha256).exists()]
        missing += [
            f"{c.name} at {c.commit[:12]}" for c in sorted(each.names.commits) if not folder_of(c, store).exists()
        ]
        if missing:
            some = ", ".join(missing[:_MOST_NAMED]) + (", ..." if len(missing) > _MOST_NAMED else "")
            message = f"{len(missing)} inputs of {each.lock.recipe} are not in the store: {some}"
            raise SourceError(message, hint=f"`reprokit fetch {each.lock.recipe}` brings them")


def _add_texts(content: _Content, chosen: Locked) -> None:
    for path, lock in ((chosen.recipe, False), (lock_path(chosen.recipe), True)):
        raw = path.read_bytes()
        text = Text(recipe=chosen.lock.recipe, lock=lock, sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))
        content.add(text, raw)


def _add_files(content: _Content, chosen: Locked, store: Store, say: Say) -> None:
    for each in chosen.names.inputs.values():
        path = store.path(each.sha256)
        if path.exists():
            content.add(File(sha256=each.sha256, size=each.size), path)
        else:
            say(f"{each.name} is left out: the data of a benchmark, which is not in the store")


def _add_repositories(content: _Content, chosen: Locked, store: Store, scratch: Path) -> None:
    for commit in chosen.names.commits:
        path = scratch / f"{hashlib.sha256(commit.name.encode()).hexdigest()}-{commit.commit}.pack"
        if not path.exists():
            shallow = pack(folder_of(commit, store), commit, path)
            repository = Repository(
                url=commit.url,
                commit=commit.commit,
                shallow=shallow,
                sha256=sha256_of(path),
                size=path.stat().st_size,
            )
            content.add(repository, path)


def _registry_bases(chosen: Iterable[Locked]) -> list[Base]:
    bases = {base.digest: base for each in chosen for v in each.variants if (base := each.lock.variants[v].base).digest}
    return [bases[digest] for digest in sorted(filter(None, bases))]


def _add_image(content: _Content, base: Base, engine: Engine, store: Store, scratch: Path, say: Say) -> None:
    assert base.digest
    name = carried_name(base.digest)
    found = locked_base(engine, base, store, say)
    described = engine.image(found.name) or {}
    require_space(described.get("Size", 0), scratch)
    path = scratch / f"{name.rpartition(':')[2]}.tar"
    say(f"saving {base.reference} from the engine")
    known = found.name == name
    if not known:
        engine.tag(found.image_id, *name.split(":"))
    digest = hashlib.sha256()
    try:
        with path.open("wb") as out:
            for block in engine.save(name):
                digest.update(block)
                out.write(block)
    finally:
        if not known:
            engine.remove_image(name)
    layers = tuple((described.get("RootFS") or {}).get("Layers") or ())
    image = Image(digest=base.digest, layers=layers, sha256=digest.hexdigest(), size=path.stat().st_size)
    content.add(image, path)


@contextmanager
def _beside(target: Path, say: Say) -> Iterator[IO[bytes]]:
    """A file that takes the target's place once it is whole. What a killed process left of one is written over."""
    partial = partial_of(target)
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        file = claimed(partial, say)
        file.truncate(0)
    except OSError as error:
        raise UsageError(f"the archive cannot be written: {error.strerror}", str(target)) from None
    with file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(target)
        except BaseException as error:
            partial.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise SourceError(f"the archive cannot be written: {error.strerror}", str(target)) from None
            raise
