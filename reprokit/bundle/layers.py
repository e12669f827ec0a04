"""What made each layer of an image, from the history in its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reprokit.bundle.model import Image
from reprokit.untrusted.documents import parsed

_SHELL = "/bin/sh -c "


@dataclass(frozen=True)
class Row:
    """A layer: `packed` are bytes in the bundle, None where it is left out; `size` uncompressed, None if unknown."""

    diff_id: str
    packed: int | None
    size: int | None
    instruction: str


def rows(image: Image, sizes: Mapping[str, int]) -> list[Row]:
    """From the base up; `sizes` are uncompressed ones by diff id, as far as they are known."""
    made = instructions(image.config, len(image.layers))
    return [
        Row(layer.diff_id, layer.blob.size if layer.blob else None, sizes.get(layer.diff_id, layer.size or None), text)
        for layer, text in zip(image.layers, made, strict=True)
    ]


def instructions(config: bytes, count: int) -> list[str]:
    """The Dockerfile's line that made each of `count` layers; empty where the config does not say."""
    history = _value(config).get("history")
    entries = history if isinstance(history, list) else []
    made = [_plain(e) for e in entries if isinstance(e, dict) and not e.get("empty_layer")]
    return made if len(made) == count else [""] * count


def settings(config: bytes) -> dict[str, Any]:
    """What a container of the image begins with: ENV, LABEL, WORKDIR, ..."""
    found = _value(config).get("config")
    return found if isinstance(found, dict) else {}


def _value(config: bytes) -> dict[str, Any]:
    value = parsed(config)
    return value if isinstance(value, dict) else {}


def _plain(entry: Mapping[str, Any]) -> str:
    """Without what only the classic builder writes before it: build arguments, the shell, a mark."""
    text = str(entry.get("created_by") or entry.get("comment") or "")
    if text.startswith(("|", _SHELL)):
        text = text.partition(_SHELL)[2] or text
    text = text.removeprefix("#(nop) ").strip()
    return "".join(c if c.isprintable() else " " for c in text)
