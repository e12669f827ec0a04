"""A package index (PEP 503) over the wheels and sdists of one build."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from packaging.utils import canonicalize_name

from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import Distribution
from reprokit.supply.serve.site import Content, Site
from reprokit.supply.store import Store


def index(wheels: Sequence[Distribution]) -> Site:
    """`/KEY/simple/` lists the projects, `/KEY/simple/NAME/` the files that are below it.

    `/KEY/simple/constraints.txt` has the versions to install, as files for building may be newer.
    """

    def contents(store: Store) -> Mapping[str, Content]:
        files = {f"{wheel.name}/{wheel.file}": store.path(wheel.sha256) for wheel in wheels}
        links: dict[str, str] = {}
        for wheel in wheels:
            link = f'<a href="{quote(wheel.file)}#sha256={wheel.sha256}">{html.escape(wheel.file)}</a><br>\n'
            links[wheel.name] = links.get(wheel.name, "") + link
        links[""] = "".join(f'<a href="{name}/">{name}</a><br>\n' for name in sorted(links))
        pages = {n: f"<!DOCTYPE html>\n<html><body>\n{text}</body></html>\n".encode() for n, text in links.items()}
        pinned = "".join(f"{wheel.name}=={wheel.version}\n" for wheel in wheels if not wheel.build_only)
        return {**files, **pages, _canonical("constraints.txt"): pinned.encode()}

    key = content_key(wheels, "file")
    return Site("wheels", key, contents, "simple/", "text/html; charset=utf-8", canonical=_canonical)


def _canonical(path: str) -> str:
    """The path with the project's name as PEP 503 writes it."""
    project, slash, file = path.partition("/")
    return canonicalize_name(project) + slash + file
