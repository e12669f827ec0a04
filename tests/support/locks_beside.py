"""Recipes in one folder, with locks of different days."""

from __future__ import annotations

import os
from pathlib import Path

from reprokit.display import reporting
from reprokit.engine import Engine
from reprokit.image.lock.beside import followed, remember
from reprokit.image.lock.read import sections
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_file
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import AptPackage, Base, Bootstrap, Lock, VariantLock
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.upstream import Upstream

NONE: Engine = None  # type: ignore[assignment]


class Folder:
    """Writes recipes to `folder`, and serves the packages of their locks."""

    def __init__(self, folder: Path, upstream: Upstream, store: Store) -> None:
        self.folder, self.upstream, self.store = folder, upstream, store

    def add(self, name: str, apt: str, base: str = "", own: bool = True) -> Target:
        """A recipe that installs `apt`. With `base`, a digit, it has a lock whose packages have that version.

        `own`: the user's reprokit has resolved the lock.
        """
        head = f"name: {name}\npaper: {{title: T, venue: V, year: 2020, licence: MIT}}\n"
        variant = f"{{base: 'debian:12', pins: {{python: '3.11'}}, apt: [{apt}], blocks: [python, apt]}}"
        path = self.folder / f"{name}.yaml"
        path.write_text(f"{head}variants: {{v: {variant}}}\n")
        target = Target(load_file(path), "v", path)
        if not base:
            return target
        made = Bootstrap(
            distribution="debian", suite="bookworm", architecture="amd64", packages=(self._package("libc6", base),)
        )
        blocks = tuple(self._package(block, base, block) for block in ("base", "python", "apt"))
        lock = VariantLock(
            reprokit="1", inputs={}, python="3.11", glibc="2.36", machine=os.uname().machine, apt=blocks,
            base=Base(reference="debian:12", bootstrap=made), apt_as_of=f"2026110{base}T000000Z",
        )  # fmt: skip
        if own:
            remember(lock, self.store)
        hashes = sections(target, render(target), lock.machine)
        write(lock_path(path), Lock(recipe=name, variants={"v": lock.model_copy(update={"inputs": hashes})}))
        return target

    def _package(self, name: str, version: str, *blocks: str) -> AptPackage:
        path = f"{name}_{version}.deb"
        self.upstream.answers[f"/{path}"] = (200, {}, b"deb")
        url = f"http://127.0.0.1:{self.upstream.port}/{path}"
        return AptPackage(
            name=name, version=version, architecture="amd64", archive="other", path=path, url=url, size=3,
            sha256="1" * 63 + version, blocks=blocks,
        )  # fmt: skip

    def followed(self, target: Target) -> tuple[str, dict[str, list[str]], list[str]]:
        """What a new lock follows: the version of the base and the packages by block; and the lines for the user."""
        lines: list[str] = []
        with reporting(lines.append):
            base, sets = followed(NONE, target, render(target).installs, None, local_mirrors(self.store))
        version = base.bootstrap.packages[0].version if base and base.bootstrap else ""
        return version, {i.block: [p.name for p in packages] for i, packages in sets.sets.items()}, lines
