"""The registries of a base image: its own and the user's mirrors, those that failed recently last."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from reprokit.config import load
from reprokit.errors import SourceError
from reprokit.supply.hosts import FailingHosts
from reprokit.supply.store import Store

T = TypeVar("T")
_HUB = "docker.io"
_HUB_PREFIXES = ("docker.io/", "index.docker.io/")
# The registry works, but does not have this image or does not allow us to read it.
_NOT_AT_FAULT = re.compile(
    r"manifest|not found|does not exist|denied|unauthorized|authentication required|no basic auth"
)


def registries(reference: str) -> list[tuple[str, str]]:
    """Each registry with the image's name there: `("mirror HOST/PREFIX", "HOST/PREFIX/library/debian:12")`."""
    by_url = {f"https://{registry_of(reference)}": ("registry", reference)}
    by_url |= {f"https://{mirror}": (f"mirror {mirror}", name) for mirror, name in mirrored(reference)}
    return [by_url[url] for url in FailingHosts(Store()).order(by_url)]


def mirrored(reference: str) -> list[tuple[str, str]]:
    """The user's mirrors of Docker Hub with the image's name there; none for another registry."""
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


def ask(reference: str, tried: list[str], question: Callable[[str, str], T]) -> T | None:
    """The first answer to `question(registry, name)`; None if all registries fail, with their errors in `tried`.

    Registries that do not answer come last from then on.
    """
    failing_hosts = FailingHosts(Store())
    for registry, name in registries(reference):
        url = f"https://{registry_of(name)}"
        try:
            answer = question(registry, name)
        except SourceError as error:
            tried.append(f"{name}: {error.message}")
            if not _NOT_AT_FAULT.search(error.message):
                failing_hosts.report(url, error.message)
        else:
            failing_hosts.report(url, None)
            return answer
    return None
