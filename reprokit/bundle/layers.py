"""The instruction that made each layer of an image, from the history in its config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.engine.info import HistoryStep
from reprokit.image.shell import block_of, without_boilerplate, without_step
from reprokit.oci.model import Image
from reprokit.oci.read import NO_LAYER
from reprokit.untrusted.documents import parsed

_SHELL = "/bin/sh -c "


@dataclass(frozen=True)
class LayerRow:
    """A layer: `packed` bytes in the bundle, None if it is excluded; `size` uncompressed, None if unknown."""

    diff_id: str
    packed: int | None
    size: int | None
    instruction: str


def rows(image: Image) -> list[LayerRow]:
    """From the base up."""
    made = zip(image.layers, instructions(image.config, len(image.layers)), strict=True)
    return [
        LayerRow(each.diff_id, each.blob.size if each.blob else None, each.size or None, text) for each, text in made
    ]


def instructions(config: bytes, count: int) -> list[str]:
    """The Dockerfile's line of each of `count` layers; empty if the config's history does not match."""
    history = _value(config).get("history")
    entries = history if isinstance(history, list) else []
    made = [_plain(e) for e in entries if isinstance(e, dict) and not e.get("empty_layer")]
    return made if len(made) == count else [""] * count


def instructions_of(history: Sequence[HistoryStep], count: int) -> list[str]:
    """As `instructions`, from an engine's history, newest step first, which does not mark steps without a layer."""
    made = [_plain({"created_by": step.command, "comment": step.comment}) for step in reversed(history)]
    made = [text for text in made if not NO_LAYER.match(text)]
    return made if len(made) == count else [""] * count


def settings(config: bytes) -> dict[str, Any]:
    """The settings of the image's containers: ENV, LABEL, WORKDIR, ..."""
    found = _value(config).get("config")
    return found if isinstance(found, dict) else {}


def _value(config: bytes) -> dict[str, Any]:
    value = parsed(config)
    return value if isinstance(value, dict) else {}


def _plain(entry: Mapping[str, Any]) -> str:
    """The instruction without the classic builder's prefix (build arguments, shell), and with the name of its block."""
    text = without_step(str(entry.get("created_by") or entry.get("comment") or ""))
    if text.startswith(("|", _SHELL)):
        text = text.partition(_SHELL)[2] or text
    text = text.removeprefix("#(nop) ").strip()
    if block := block_of(text):
        text = f"block {block}: {without_boilerplate(text.removeprefix('RUN ').removeprefix(_SHELL))}"
    return "".join(c if c.isprintable() else " " for c in text)
