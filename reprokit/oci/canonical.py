"""The canonical digest of an image: of the effects of its layers and of its settings, the same on every engine.

The part of the layers is cached by chain ID: by the diff IDs of all layers from the base up, which name their content.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Queue
from typing import Any

from reprokit import paths
from reprokit.engine import ImageInfo
from reprokit.errors import UsageError
from reprokit.oci.effect import Files
from reprokit.oci.entries import EntryTotal, LayerEntry, entries
from reprokit.untrusted.files import Folder

# Settings in which the engine records the build, and names of the machine.
NOTES = {"Image", "Hostname", "Domainname", "AttachStdin", "AttachStdout", "AttachStderr", "ArgsEscaped"}
OWN_LABELS = {"reprokit.base", "reprokit.version"}
_AHEAD = 8  # blocks that wait for a thread
_LONGEST = 100

Entries = Sequence[tuple[str, LayerEntry]]


def canonical_digest(diff_ids: Sequence[str], config: Mapping[str, Any]) -> str:
    """The digest of the image with these layers and this `config` object, "" if its layers were never read."""
    with Folder(paths.private(paths.state() / "digests")) as cache, suppress(OSError, UnicodeDecodeError):
        layers = cache.read(_hash(list(diff_ids)), _LONGEST).decode("ascii")
        settings = {key: value for key, value in config.items() if value and key not in NOTES}
        if isinstance(labels := settings.get("Labels"), dict):
            settings["Labels"] = {name: text for name, text in labels.items() if name not in OWN_LABELS}
        if isinstance(variables := settings.get("Env"), list):
            settings["Env"] = sorted(map(str, variables))
        return f"sha256:{_hash({'layers': layers, 'settings': settings})}"
    return ""


def canonical_digest_of(image: ImageInfo | None) -> str:
    """As `canonical_digest`, of an image of an engine; "" without one."""
    return canonical_digest(image.layers, image.config) if image else ""


def keep(
    diff_ids: Sequence[str],
    layers: Iterable[Iterable[tuple[str, LayerEntry]]],
    where: str,
    total: EntryTotal | None = None,
) -> None:
    """Cache the part of the layers, whose content has these diff IDs. Raises UsageError naming `where`."""
    files = Files(total)
    effects = [effect.digest for layer in layers if (effect := files.apply(layer, where))]
    with Folder(paths.private(paths.state() / "digests")) as cache, cache.replacing(_hash(list(diff_ids))) as file:
        file.write(_hash(effects).encode())


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class PassingLayers:
    """Reads the entries of layers, each in a thread, while their blocks go elsewhere."""

    def __init__(self) -> None:
        self._total, self._readers = EntryTotal(), dict[str, _Reader]()

    def begin(self, diff_id: str = "") -> Callable[[bytes], object]:
        """Start a layer; returns the function that takes its blocks, and b"" at the end."""
        reader = _Reader(self._total)
        reader.start()
        self._readers[diff_id] = reader
        return reader.blocks.put

    def passing(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The blocks of a layer whose diff ID `named` states when they have passed."""
        put = self.begin()
        try:
            for block in blocks:
                if block:
                    put(block)
                yield block
        finally:
            put(b"")

    def named(self, diff_id: str) -> None:
        self._readers[diff_id] = self._readers.pop("")

    def keep(self, diff_ids: Sequence[str]) -> None:
        """Cache the layers' part of the digest of an image, unless a layer did not pass or cannot be understood."""
        readers = [self._readers.get(diff_id) for diff_id in diff_ids]
        layers = [layer for reader in readers if reader and (layer := reader.result()) is not None]
        if len(layers) == len(diff_ids):
            with suppress(UsageError):
                keep(diff_ids, layers, "", self._total)


class _Reader(threading.Thread):
    def __init__(self, total: EntryTotal) -> None:
        super().__init__(daemon=True)
        self.blocks: Queue[bytes] = Queue(_AHEAD)
        self._total = total
        self._entries: Entries | None = None

    def run(self) -> None:
        blocks = iter(self.blocks.get, b"")
        try:
            self._entries = list(entries(blocks, "", self._total))
        except UsageError:
            pass
        finally:
            for _ in blocks:  # else the writer would wait for ever
                pass

    def result(self) -> Entries | None:
        """The entries, None if the layer is damaged or too large."""
        self.join()
        return self._entries
