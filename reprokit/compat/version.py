"""Versions of pins: exact, or a prefix such as `11` that stands for all its releases."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_FORM = re.compile(r"(\d{1,18}(?:\.\d{1,18})*)(?:[.-]?(post|rc|b|a|dev)\.?(\d{0,18}))?(?:\+([A-Za-z0-9.]+))?")
_PHASES = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}
_WIDTH = 6

Key = tuple[int, ...]


@lru_cache(maxsize=8192)
def parts(text: str) -> tuple[tuple[int, ...], str, int, str] | None:
    """Release numbers, phase, its number, local part; None if `text` is not a version."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    numbers = tuple(int(n) for n in match[1].split("."))
    return numbers, match[2] or "", int(match[3] or 0), match[4] or ""


@lru_cache(maxsize=8192)
def key(text: str) -> Key:
    """Sort key; `1.2` and `1.2.0` are equal, local parts do not count. Raises ValueError."""
    parsed = parts(text)
    if parsed is None:
        raise ValueError(f"{text!r} is not a version")
    numbers, phase, number, _ = parsed
    return (*numbers, *(0,) * (_WIDTH - len(numbers)), _PHASES[phase], number)


def local(text: str) -> str:
    """`cu111` of `1.8.0+cu111`."""
    return text.partition("+")[2]


def public(text: str) -> str:
    """`1.8.0` of `1.8.0+cu111`."""
    return text.partition("+")[0]


@lru_cache(maxsize=8192)
def series(text: str, count: int = 2) -> str:
    """The first `count` numbers: `11.4` of `11.4.3`; fewer if there are no more."""
    parsed = parts(text)
    return ".".join(map(str, parsed[0][:count])) if parsed else text


@lru_cache(maxsize=65536)
def begins(prefix: str, text: str) -> bool:
    """Whether `text` is `prefix` or one of its releases: `11` begins `11.8.0`, `0.4.0` begins `0.4`."""
    left, right = parts(prefix), parts(text)
    if left is None or right is None:
        return False
    if key(prefix) == key(text):
        return True
    return left[1] == "" and left[0] == right[0][: len(left[0])]


def matching(pin: str, versions: Iterable[str]) -> tuple[str, ...]:
    """The `versions` that `pin` stands for; `pin` itself if it belongs to a series of theirs; else ()."""
    pin = public(pin)
    if parts(pin) is None:
        return ()
    releases = tuple(v for v in versions if begins(pin, v))
    if releases:
        return releases
    return (pin,) if any(begins(v, pin) for v in versions) else ()


def older(version: str, least: str | None) -> bool:
    """Whether `version` is before `least`; no version is before "" or None."""
    return bool(least) and key(version) < key(least or "")


def at_most(version: str, limit: str) -> bool:
    """Whether `version` <= `limit`; the limit `9` allows all of 9.x."""
    return key(version) <= key(limit) or begins(limit, version)


def overlap(version: str, other: str) -> bool:
    """Whether two versions can mean the same release: `11.8` and `11.8.0`."""
    return begins(version, other) or begins(other, version)


def key_or_zero(text: str) -> Key:
    """`key`, or () if `text` is not a version."""
    return key(text) if parts(text) else ()
