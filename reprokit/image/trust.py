"""The images that this installation built or that the user trusts, by image ID, as anyone can copy a label.

An ID is a digest of an image's configuration and layers, so it means the same image on every engine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.untrusted.files import Folder

State = Literal["built here", "trusted", "unverified"]
_FILE = "images.json"
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class TrustEntry:
    """`how` is the command that made the entry, `engine` the image's engine then, `time` UTC in ISO 8601."""

    id: str
    state: State
    how: str
    engine: str
    time: str


def state(image_id: str) -> State:
    """The state of an image. Raises EngineError if the entries cannot be read."""
    entry = entries().get(_full(image_id))
    return entry.state if entry else "unverified"


def known(image_id: str) -> bool:
    """Whether the image was built here or is trusted."""
    return state(image_id) != "unverified"


def notice(image_id: str, label: str, node: str = "") -> str:
    """A notice for the user if the image, here or on a node, is unverified; otherwise empty."""
    if known(image_id):
        return ""
    name = image_id if node else label
    return f"the image of {label} is unverified: neither built here nor trusted (`reprokit trust add {name}`)"


def record(engine: Engine, image_id: str, state: State, how: str, where: str = "") -> None:
    """Record an image of `engine`, or of the engine `where`. "built here" is never replaced. Raises EngineError."""
    with _changing(engine) as found:
        known = found.get(_full(image_id))
        if known is None or known.state == "trusted":
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            found[_full(image_id)] = TrustEntry(_full(image_id), state, how, where or _name(engine), now)


def revoke(engine: Engine, image_ids: Iterable[str]) -> list[str]:
    """Remove images; returns the IDs of those that had an entry. Raises EngineError."""
    with _changing(engine) as found:
        gone = [image_id for image_id in map(_full, image_ids) if found.pop(image_id, None)]
    return gone


def entries() -> dict[str, TrustEntry]:
    """All entries by image ID. Raises EngineError if they cannot be read."""
    if not _folder().is_dir():
        return {}
    _check(_folder())
    try:
        with Folder(_folder()) as folder:
            text = folder.read(_FILE, _MOST_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise EngineError(f"cannot read the list of trusted images: {error.strerror}", str(_folder() / _FILE)) from None
    try:
        found = [TrustEntry(**each) for each in json.loads(text)]
    except (ValueError, TypeError):
        # A damaged list means that all images are unverified.
        return {}
    return {entry.id: entry for entry in found if entry.state in get_args(State)}


@contextmanager
def _changing(engine: Engine) -> Iterator[dict[str, TrustEntry]]:
    """The entries, written when the block ends, without those of images that the engine no longer has."""
    from filelock import FileLock

    try:
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(_folder())
        with FileLock(_folder() / "lock", mode=0o600), Folder(_folder()) as folder:
            found = entries()
            # After the entries were read, so that each entry's image already exists.
            here = {_full(image["Id"]) for image in engine.images([], steps=True)}
            found = {i: entry for i, entry in found.items() if i in here or entry.engine != _name(engine)}
            yield found
            with folder.replacing(_FILE) as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(json.dumps([asdict(entry) for entry in found.values()], indent=1).encode())
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise EngineError(f"cannot write the list of trusted images: {error.strerror}", str(_folder())) from None


def _folder() -> Path:
    return paths.state() / "trust"


def _check(folder: Path) -> None:
    """Raises EngineError if another user could have changed the list."""
    info = folder.stat()
    if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022:
        raise EngineError(
            "other users can change the list of trusted images",
            str(folder),
            "remove that folder; all images are unverified then",
        )


def _name(engine: Engine) -> str:
    return str(engine.info().get("ID") or engine.url)


def _full(image_id: str) -> str:
    """Add the algorithm, which podman omits."""
    return image_id if image_id.startswith("sha256:") else f"sha256:{image_id}"
