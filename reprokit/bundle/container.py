"""A container in its present state as an image: the layers of its image, and one with its changes.

Unlike an engine's `export` it keeps the configuration: ENV, WORKDIR, ENTRYPOINT, USER, labels.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from reprokit import paths
from reprokit.bundle.layer_filter import FilterReport, filter_layer
from reprokit.bundle.write import Changed
from reprokit.container import names
from reprokit.display import notify
from reprokit.engine import LABEL, ContainerInfo, Engine, ImageInfo
from reprokit.errors import UsageError
from reprokit.filelocks import file_lock
from reprokit.image.labels import DOCKERFILE, INPUTS
from reprokit.interrupts import deferred
from reprokit.oci.model import Image
from reprokit.oci.read import engine_image
from reprokit.untrusted.limits import LINKED_FILE
from reprokit.untrusted.tar import Stream, members

_SNAPSHOTS = "reprokit-export"
# These belong to this machine's container, or claim that the image is what its recipe builds.
_LEFT_LABELS = (
    names.NAME, names.IMAGE, names.OWNER, names.USER, names.SETTINGS, INPUTS, DOCKERFILE, f"{LABEL}.lock",
)  # fmt: skip


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
    """The name of the snapshot, which is removed at the end; so is one that a killed process left."""
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
    """The size and the content of a regular file; None if the path is none."""
    with engine.archive(container, path, LINKED_FILE) as blocks:
        stream = Stream(blocks or ())
        member = next(members(stream, f"{container}:{path}"), None) if blocks else None
        yield (member.size, stream.body(member.size)) if member and member.isreg() else None
