"""Typed access to values of TOML that a stranger wrote."""

from __future__ import annotations

from typing import Any


def table(data: Any, *path: str) -> dict[str, Any]:
    """The table at `path`; empty if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def texts(value: Any) -> list[str]:
    """The texts of a list, or of a single text."""
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]
