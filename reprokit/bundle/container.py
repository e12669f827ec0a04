"""A container's current state as an image: the layers of its image, and one layer with its changes.

Unlike an engine's `export` it keeps the configuration: ENV, WORKDIR, ENTRYPOINT, USER, labels.
"""

from __future__ import annotations

import contextlib
import io
import json
import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from reprokit import paths
from reprokit.bundle.write import Changed
from reprokit.container import names
from reprokit.display import notify
from reprokit.engine import LABEL, ContainerInfo, Engine, ImageInfo
from reprokit.errors import EngineError, UsageError
from reprokit.filelocks import file_lock
from reprokit.image.labels import DOCKERFILE, INPUTS
from reprokit.interrupts import deferred
from reprokit.oci.model import Image
from reprokit.oci.read import engine_image
from reprokit.untrusted.limits import LINKED_FILE
from reprokit.untrusted.tar import Stream, members

# Caches of package managers and compilers, which are filled again on demand.
CACHES = (
    "/var/cache/apt/archives/*.deb",
    "/var/cache/apt/*.bin",
    "/var/lib/apt/lists/*",
    "*/.cache/pip/*",
    "*/.cache/uv/*",
    "*/.cache/ccache/*",
    "*/.ccache/*",
    "*/.npm/_cacache/*",
    "*/conda/pkgs/*.conda",
    "*/conda/pkgs/*.tar.bz2",
    "*/conda/pkgs/cache/*",
)
_DEPTH = 4
_MOST_LARGE = 10
_ONE_CHILD = 0.9
_END = bytes(2 * tarfile.BLOCKSIZE)

# The size of a file of the container, and its content.
Fetch = Callable[[str], AbstractContextManager[tuple[int, Iterator[bytes]] | None]]
_SNAPSHOTS = "reprokit-export"
# Labels about this machine's container, or that claim that the image is as its recipe builds it.
_LEFT_LABELS = (
    names.NAME, names.IMAGE, names.OWNER, names.USER, names.SETTINGS, INPUTS, DOCKERFILE, f"{LABEL}.lock",
)  # fmt: skip


@dataclass
class FilterReport:
    """Bytes of files by folder, and of the excluded files. Paths begin with a slash."""

    folders: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)

    @property
    def largest(self) -> list[tuple[str, int]]:
        """The largest folders and files with their bytes, except folders that are large because of a single child."""
        of_children: Counter[str] = Counter()
        for path, size in self.folders.items():
            parent = posixpath.dirname(path)
            of_children[parent] = max(of_children[parent], size if path != "/" else 0)
        most = ((path, size) for path, size in self.folders.most_common() if path != "/" and size)
        return [(path, size) for path, size in most if of_children[path] < _ONE_CHILD * size][:_MOST_LARGE]


def filter_layer(
    blocks: Iterator[bytes], patterns: Sequence[str], fetch: Fetch, report: FilterReport
) -> Iterator[bytes]:
    """The tar without regular files whose paths match one of `patterns`; `*` also matches slashes.

    Folders stay, and so do whiteouts, without which files of the layers below would reappear. A hard link to an
    excluded file becomes a file of its own, with the content from `fetch`. Raises EngineError if that file no longer
    exists, or if the tar is damaged.
    """
    try:
        yield from _filtered(_Recording(blocks), patterns, fetch, report)
        yield _END
    except (tarfile.TarError, EOFError) as error:
        raise EngineError(f"the engine's layer is damaged: {error}", hint="repeat the command") from None


def _filtered(stream: _Recording, patterns: Sequence[str], fetch: Fetch, report: FilterReport) -> Iterator[bytes]:
    gone: set[str] = set()
    copies: dict[str, str] = {}
    for member in members(stream):
        path = posixpath.normpath("/" + member.name)
        header, size = stream.taken(), member.size if member.isreg() else 0
        body = stream.body(size + -size % tarfile.BLOCKSIZE)
        if (member.isreg() or member.islnk()) and _matches(path, patterns):
            report.excluded[path] += size
            gone.add(path)
            for _ in body:
                pass
        elif member.islnk() and (target := posixpath.normpath("/" + member.linkname)) in gone:
            yield from _other_link(member, path, copies.get(target), fetch)
            copies.setdefault(target, member.name)
        else:
            _count(report.folders, path, size)
            yield header
            yield from body


def _other_link(member: tarfile.TarInfo, path: str, now_at: str | None, fetch: Fetch) -> Iterator[bytes]:
    """A hard link to an excluded file: a link to the first copy of that file, or that copy."""
    member.pax_headers = {key: value for key, value in member.pax_headers.items() if key not in ("linkpath", "size")}
    if now_at is not None:
        member.linkname = now_at
        yield member.tobuf(tarfile.PAX_FORMAT)
        return
    with fetch(path) as content_of_link:
        if content_of_link is None:
            raise EngineError("a file was removed while the container was exported", path, "repeat the command")
        member.size, content = content_of_link
        member.type, member.linkname = tarfile.REGTYPE, ""
        yield member.tobuf(tarfile.PAX_FORMAT)
        yield from content
        yield bytes(-member.size % tarfile.BLOCKSIZE)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    whiteout = posixpath.basename(path).startswith(".wh.")
    return not whiteout and any(fnmatchcase(path, pattern) for pattern in patterns)


def _count(folders: Counter[str], path: str, size: int) -> None:
    parts = path.split("/")[1:]
    for depth in range(min(len(parts), _DEPTH) + 1):
        folders["/" + "/".join(parts[:depth])] += size


class _Recording(Stream):
    """Remembers the bytes of headers, which are written unchanged."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__(blocks)
        self._headers = io.BytesIO()

    def read(self, size: int) -> bytes:
        data = super().read(size)
        self._headers.write(data)
        return data

    def taken(self) -> bytes:
        data = self._headers.getvalue()
        self._headers = io.BytesIO()
        return data


@contextlib.contextmanager
def snapshot(engine: Engine, name: str, patterns: Sequence[str]) -> Iterator[tuple[ImageInfo, Changed, FilterReport]]:
    """An image of the container for as long as the block runs. Files that match `patterns` are excluded.

    Yields the image in the engine, its changes on the way to the bundle, and a report of its files. The container is
    paused while the image is made. Raises UsageError if no such container.
    """
    container = _container(engine, name)
    own = container.name
    tag = re.sub(r"[^A-Za-z0-9_.-]", "-", own)
    lock = paths.state() / "containers" / f"{tag}.export.lock"
    alone = file_lock(lock, f"another export of {own} is running; waiting for it")
    with alone, _committed(engine, own, tag) as reference:
        image = engine_image(engine, reference)
        report = FilterReport()
        began = engine.layers(container.image)
        edits = {}
        # Some engines add no layer if nothing has changed.
        if len(image.layers) > len(began):
            top = image.layers[-1]
            edits[top] = lambda blocks: filter_layer(blocks, patterns, lambda path: _content(engine, own, path), report)
        changed = Changed(edits, lambda exported: _finished(engine, container, exported))
        yield replace(image, labels=_labels(container)), changed, report


def _container(engine: Engine, name: str) -> ContainerInfo:
    container = engine.container(name) or engine.container(names.chosen(engine, [name])[0].name)
    if container is None:
        raise UsageError("no such container", name, "`docker ps -a` lists them")
    return container


@contextlib.contextmanager
def _committed(engine: Engine, name: str, tag: str) -> Iterator[str]:
    """The name of the snapshot, which is removed at the end; one left by a killed process is removed first."""
    reference = f"{_SNAPSHOTS}:{tag}"
    _remove(engine, reference)
    notify(f"taking a snapshot of {name}")
    try:
        with deferred():
            engine.commit(name, _SNAPSHOTS, tag)
        yield reference
    finally:
        with deferred():
            _remove(engine, reference)


def _remove(engine: Engine, reference: str) -> None:
    if engine.image(reference) is not None:
        engine.remove_image(reference)


def _finished(engine: Engine, container: ContainerInfo, image: Image) -> Image:
    """The image under its name in the bundle, without this machine's data in its configuration."""
    value = json.loads(image.config)
    config = dict(value.get("config") or {})
    config["Labels"] = _labels(container)
    for machine in ("Hostname", "Domainname", "Image"):
        config.pop(machine, None)
    if names.NAME in container.labels:
        _as_built(engine, container, config)
    value["config"] = config
    for machine in ("container", "container_config"):
        value.pop(machine, None)
    value["rootfs"] = {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]}
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    return Image(_name(container), text, image.layers)


def _as_built(engine: Engine, container: ContainerInfo, config: dict[str, Any]) -> None:
    """Restore the image's own settings that `reprokit run` replaced: main process, user, GPUs."""
    original = engine.image(container.labels.get(names.IMAGE, ""))
    built = original.config if original else {}
    for key in ("Entrypoint", "Cmd", "User", "StopSignal", "Healthcheck", "ExposedPorts"):
        config.pop(key, None)
        if built.get(key):
            config[key] = built[key]
    hidden = "NVIDIA_VISIBLE_DEVICES="
    env = [entry for entry in config.get("Env") or [] if not entry.startswith(hidden)]
    config["Env"] = env + [entry for entry in built.get("Env") or [] if entry.startswith(hidden)]


def _labels(container: ContainerInfo) -> dict[str, str]:
    return {key: value for key, value in container.labels.items() if key not in _LEFT_LABELS}


def _name(container: ContainerInfo) -> str:
    """A recipe's container gets the name of its image, so that `reprokit shell` starts from it."""
    if names.NAME in container.labels:
        return f"reprokit/{names.label_of(container.labels)}"
    return f"container/{container.name.lower()}:latest"


@contextlib.contextmanager
def _content(engine: Engine, container: str, path: str) -> Iterator[tuple[int, Iterator[bytes]] | None]:
    """The size and the content of a regular file; None if the path is not a regular file."""
    with engine.archive(container, path, LINKED_FILE) as blocks:
        stream = Stream(blocks or ())
        member = next(members(stream, f"{container}:{path}"), None) if blocks else None
        yield (member.size, stream.body(member.size)) if member and member.isreg() else None
