"""Where a base image may be pulled from: its registry and the user's mirrors, the dead ones last."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reprokit.errors import SourceError
from reprokit.supply.mirrors.configuration import load
from reprokit.supply.mirrors.measured import Measures
from reprokit.supply.store import Store

_HUB = "docker.io"
_HUB_PREFIXES = ("docker.io/", "index.docker.io/")
# The registry answers, and has not this image, or not for us.
_NOT_AT_FAULT = re.compile(
    r"manifest|not found|does not exist|denied|unauthorized|authentication required|no basic auth"
)


def places(reference: str) -> list[tuple[str, str]]:
    """What it is, and the image's name there: `("mirror HOST/PREFIX", "HOST/PREFIX/library/debian:12")`."""
    found = {f"https://{registry_of(reference)}": ("registry", reference)}
    found |= {f"https://{mirror}": (f"mirror {mirror}", name) for mirror, name in mirrored(reference)}
    return [found[url] for url in Measures(Store()).order(found)]


def mirrored(reference: str) -> list[tuple[str, str]]:
    """The user's registry mirrors, which stand in for Docker Hub only, and the image's name there."""
    if registry_of(reference) != _HUB:
        return []
    for prefix in _HUB_PREFIXES:
        reference = reference.removeprefix(prefix)
    name = reference if "/" in reference else f"library/{reference}"
    return [(mirror, f"{mirror}/{name}") for mirror in load().of("registry")]


def registry_of(reference: str) -> str:
    """The host of an image's name, as the engine reads it."""
    first, slash, _ = reference.partition("/")
    named = slash and ("." in first or ":" in first or first == "localhost")
    return first if named and not reference.startswith(_HUB_PREFIXES) else _HUB


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Takes note of whether the registry of this name can be asked."""
    measures, url, began = Measures(Store()), f"https://{registry_of(name)}", time.monotonic()
    try:
        yield
    except SourceError as error:
        if not _NOT_AT_FAULT.search(error.message):
            measures.report(url, 0, time.monotonic() - began, error.message)
        raise
    measures.report(url, 0, 0, None)
