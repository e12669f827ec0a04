"""The images that this installation built or that the user trusts, by image ID, as anyone can copy a label.

An ID is a digest of an image's configuration and layers, so it means the same image on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from reprokit.engine import Engine, full_id
from reprokit.image.entries import EntryList, engine_name, now

State = Literal["built here", "trusted", "unverified"]


@dataclass(frozen=True)
class TrustEntry:
    """`how` is the command that made the entry, `engine` the image's engine then, `time` UTC in ISO 8601.

    `verified` is the verdict of `reprokit verify` on the image, empty without one.
    """

    id: str
    state: State
    how: str
    engine: str
    time: str
    verified: str = ""


_LIST = EntryList("images.json", TrustEntry, "trusted images")


def state(image_id: str) -> State:
    """The state of an image. Raises EngineError if the entries cannot be read."""
    entry = entries().get(full_id(image_id))
    return entry.state if entry else "unverified"


def verified(image_id: str) -> str:
    """The verdict of `reprokit verify` on an image, empty without one. Raises EngineError as `state`."""
    entry = entries().get(full_id(image_id))
    return entry.verified if entry else ""


def is_trusted(image_id: str) -> bool:
    """Whether the image was built here or is trusted."""
    return state(image_id) != "unverified"


def notice(image_id: str, label: str, node: str = "") -> str:
    """A notice for the user if the image, here or on a node, is unverified; otherwise empty."""
    if is_trusted(image_id):
        return ""
    name = image_id if node else label
    return f"the image of {label} is unverified: neither built here nor trusted (`reprokit images trust {name}`)"


def record(engine: Engine, image_id: str, state: State, how: str, where: str = "") -> None:
    """Record an image of `engine`, or of the engine `where`. "built here" is never replaced. Raises EngineError."""
    with _LIST.changing(engine) as listed:
        entry = listed.get(full_id(image_id))
        if entry is None or entry.state != "built here":
            verdict = entry.verified if entry else ""
            listed[full_id(image_id)] = _entry(image_id, state, how, where or engine_name(engine), verdict)


def record_verified(engine: Engine, image_id: str, verdict: str) -> None:
    """Record the verdict of `reprokit verify` on an image, whose state stays. Raises EngineError."""
    with _LIST.changing(engine) as listed:
        entry = listed.get(full_id(image_id)) or _entry(image_id, "unverified", "verify", engine_name(engine))
        listed[full_id(image_id)] = replace(entry, verified=verdict)


def _entry(image_id: str, state: State, how: str, engine: str, verified: str = "") -> TrustEntry:
    return TrustEntry(full_id(image_id), state, how, engine, now(), verified)


def revoke(engine: Engine, image_ids: Iterable[str]) -> list[str]:
    """Remove images; returns the IDs of those that had an entry. Raises EngineError."""
    with _LIST.changing(engine) as listed:
        return [image_id for image_id in map(full_id, image_ids) if listed.pop(image_id, None)]


def entries() -> dict[str, TrustEntry]:
    """All entries by image ID. Raises EngineError if they cannot be read."""
    return {image_id: entry for image_id, entry in _LIST.read().items() if entry.state in get_args(State)}
