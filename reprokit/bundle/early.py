"""Layers read where an engine on this machine puts them before it sends the first byte of an archive.

Docker writes every layer of `save` to a temporary folder and only then sends the whole: for some ten seconds a GB the
caller waits. Who may read that folder (root, or the owner of a rootless engine) compresses meanwhile, and where all of
it was there need not wait for the rest. What is found counts only where its digest is the layer's, or the image's;
nothing depends on this but time. Another `save` of the same layers may have its own folder beside.
Source: moby `image/tarexport/save.go`: `docker-export-*` in the TMPDIR of dockerd, which is `tmp` in its data root, and
in it `manifest.json` when all layers are.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from reprokit.bundle.foretell import Foretold
from reprokit.bundle.model import DOCKER_MANIFEST, digest_of
from reprokit.engine import Engine

_BLOCK = 1 << 20
_POLL_S = 0.02


def folder_of(engine: Engine) -> Path | None:
    """Where the engine keeps its temporary folders, if that can be read here."""
    root = engine.info().get("DockerRootDir") if engine.socket else None
    folder = Path(root or "/nowhere") / "tmp"
    return folder if os.access(folder, os.R_OK | os.X_OK) else None


class Begun:
    """The blocks of an archive, of which the first is awaited in the background."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._first: list[bytes] = []
        self._error: BaseException | None = None
        # A daemon: Ctrl-C does not wait for an engine that has not begun to answer.
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Want no more of it; an engine that has not begun to answer is left to itself."""
        if not self.waiting and isinstance(self._blocks, Generator):
            self._blocks.close()

    def __iter__(self) -> Iterator[bytes]:
        self._thread.join()
        if self._error:
            raise self._error
        yield from self._first
        yield from self._blocks

    def _wait(self) -> None:
        try:
            self._first = [block for block in [next(self._blocks, b"")] if block]
        except BaseException as error:
            self._error = error


class _File(NamedTuple):
    """A layer's file, in the folder of one `save`."""

    path: Path
    diff_id: str
    export: Path


class Early:
    """The layers that the engine writes below `folder` from now on."""

    def __init__(self, folder: Path, foretold: Foretold) -> None:
        self._folder, self._foretold = folder, foretold
        self._before = {entry.name for entry in self._exports()}

    def layers(self, waiting: Callable[[], bool]) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Each layer's diff id and content, from the time when the engine is `waiting` to answer until all were seen.

        The content of one that is not whole yet grows; one that goes away while it is read ends early.
        """
        seen: set[Path] = set()
        while True:
            last = not waiting()
            new = [file for file in self._found() if file.path not in seen]
            for file in new:
                seen.add(file.path)
                yield file.diff_id, self._growing(file, waiting)
            if last:
                return
            if not new:
                time.sleep(_POLL_S)

    def sizes(self, images: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Bytes of each layer, by diff ID, of images given as ID: diff IDs, once the engine has answered.

        From manifests, which a `save` writes last and which name an image by its digest: the folders of other saves lie
        beside this one's, some of them unfinished.
        """
        sizes = {}
        for export in self._exports():
            with contextlib.suppress(OSError, ValueError):
                for entry in json.loads(Path(export.path, DOCKER_MANIFEST).read_bytes()):
                    image_id = "sha256:" + PurePath(entry["Config"]).name.removesuffix(".json")
                    for diff_id, path in zip(images.get(image_id, ()), entry["Layers"], strict=False):
                        sizes[diff_id] = Path(export.path, path).stat().st_size
        return sizes

    def config(self, image_id: str) -> bytes | None:
        """An image's config, once the engine has answered; None where the image is not known by its digest."""
        name = image_id.removeprefix("sha256:")
        for export in self._exports():
            for path in (Path(export.path, f"{name}.json"), Path(export.path, "blobs/sha256", name)):
                with contextlib.suppress(OSError):
                    content = path.read_bytes()
                    if digest_of(content) == image_id:
                        return content
        return None

    def _exports(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                return [entry for entry in entries if entry.name.startswith("docker-export-")]
        except OSError:
            return []

    def _found(self) -> list[_File]:
        """Files of layers, the one that is being written last."""
        found = []
        for export in self._exports():
            root = Path(export.path)
            if export.name in self._before:
                continue
            for path in (*root.glob("*/layer.tar"), *root.glob("blobs/sha256/*")):
                name = str(path.relative_to(root))
                diff_id = self._foretold.diff_id(name, _described(path))
                if diff_id:
                    found.append(_File(path, diff_id, root))
        return sorted(found, key=lambda file: _changed(file.path))

    def _growing(self, layer: _File, waiting: Callable[[], bool]) -> Iterator[bytes]:
        try:
            with layer.path.open("rb") as file:
                while True:
                    last = not waiting() or self._written(layer)
                    while block := file.read(_BLOCK):
                        yield block
                    if last:
                        return
                    time.sleep(_POLL_S)
        except OSError:
            return

    def _written(self, layer: _File) -> bool:
        """Whether the engine has gone on to another layer."""
        others = (file.path for file in self._found() if file.export == layer.export and file.path != layer.path)
        return any(_changed(other) > _changed(layer.path) for other in others)


def _described(path: Path) -> dict[str, bytes]:
    """The layer's small file beside it, as it will stand in the archive before it."""
    beside = path.with_name("json")
    try:
        return {f"{path.parent.name}/json": beside.read_bytes()} if path.name == "layer.tar" else {}
    except OSError:
        return {}


def _changed(path: Path) -> int:
    """When the file was last written, in ns; the engine sets other times of it afterwards, this one it cannot."""
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return 0
