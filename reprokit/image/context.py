"""The build context: the Dockerfile, and the patches of the variant's sources, which are files beside the recipe."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path

from reprokit.errors import UsageError
from reprokit.recipe import beside
from reprokit.recipe.blocks import block_names, block_text, own_block_files
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.packages import EnvironmentFile
from reprokit.recipe.requirements import required_files
from reprokit.untrusted import files

_MOST = 4 << 20  # bytes of a patch


def patch_files(target: Target) -> tuple[tuple[str, bytes], ...]:
    """The patches by their paths in the build context, `patches/PATH`. Raises UsageError if one cannot be read."""
    found: dict[str, bytes] = {}
    for number, source in enumerate(target.variant.sources):
        for path in source.patches:
            where = where_in(target, ("sources", number, "patches"))
            found[f"patches/{path}"] = beside.read(target, path, where, _MOST)
    return tuple(sorted(found.items()))


def files_beside(target: Target) -> dict[str, bytes]:
    """The patches, own blocks, requirements and environments of a variant, by path below the recipe's folder.

    Own blocks of `$REPROKIT_BLOCKS` are among them, as if they were beside the recipe. Raises UsageError if one cannot
    be read.
    """
    variant = target.variant
    patches = {path for source in variant.sources for path in source.patches}
    environments = {entry.file for entry in variant.conda if isinstance(entry, EnvironmentFile)}
    names = sorted({posixpath.normpath(name) for name in patches | environments | required_files(target)})
    found = {name: beside.read(target, name, str(target.path), _MOST) for name in names}
    blocks = own_block_files([target.path.parent])
    for name in [block.name for block in variant.blocks if block.name not in block_names()]:
        if name not in blocks:
            raise UsageError(
                f"there is no block {name}", str(target.path), f"put it beside the recipe: blocks/{name}.j2"
            )
        found[f"blocks/{name}.j2"] = block_text(blocks[name])
    return found


def write_context(path: Path, dockerfile: str, others: Iterable[tuple[str, bytes]]) -> None:
    """Write the context into a folder, for `docker build`. Raises OSError."""
    with files.Folder(path) as folder:
        for name, content in [("Dockerfile", dockerfile.encode()), *others]:
            with folder.replacing(name) as file:
                file.write(content)
