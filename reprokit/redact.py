"""Credentials taken out of text before it is shown or kept."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(?<=://)[^/?#\s'\"]+@")


def redact(text: str) -> str:
    """`text` with `user:password@` taken out of every address."""
    return _USERINFO.sub("", text)
