"""`reprokit diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.bundle.read import Bundle
    from reprokit.oci.model import Image


def diff(
    before: options.BundleFile,
    after: options.BundleFile,
    as_json: options.Json = False,
) -> None:
    """Compare two bundles: layers, pins, packages, sizes.

    Compares images of the same name, or the only image of each. Exit code 1 where they differ.
    """
    from reprokit.bundle.read import opened
    from reprokit.errors import UsageError

    for file in (before, after):
        if file.suffix == ".yaml":
            hint = f"`reprokit export` writes bundles; `diff -u {before} {after}` compares the text of these"
            raise UsageError("diff compares bundles, and this is a recipe or a lock", str(file), hint)
    with opened(before) as one, opened(after) as other:
        found = [_of(name, one, other, left, right) for name, left, right in _pairs(one, other)]
    if as_json:
        dump(found)
    else:
        for each in found:
            _print(each)
    if any(not each["same"] for each in found):
        raise typer.Exit(1)


def _pairs(one: Bundle, other: Bundle) -> list[tuple[str, Image | None, Image | None]]:
    if len(one.images) == len(other.images) == 1:
        left, right = one.images[0], other.images[0]
        name = left.name if left.name == right.name else f"{left.name} -> {right.name}"
        return [(name, left, right)]
    lefts, rights = ({image.name: image for image in bundle.images} for bundle in (one, other))
    return [(name, lefts.get(name), rights.get(name)) for name in sorted({*lefts, *rights})]


def _of(name: str, one: Bundle, other: Bundle, left: Image | None, right: Image | None) -> dict[str, Any]:
    from dataclasses import asdict

    from reprokit.bundle.compare import compare

    found = compare(one, other, left, right)
    return {"image": name, "same": found.same, **asdict(found)}


def _print(found: dict[str, Any]) -> None:
    from reprokit.formatting import size

    echo(f"{found['image']}: {'the same' if found['same'] else 'differs'}")
    before, after = found["size"]
    if before != after:
        echo(f"  unpacked {size(before)} -> {size(after)}")
    for sign, layers in (("-", found["removed"]), ("+", found["added"])):
        for layer in layers:
            amount = "excluded" if layer["packed"] is None else size(layer["packed"])
            echo(f"  {sign} layer {layer['diff_id'][7:19]} {amount:>9}  {layer['instruction'][:70]}".rstrip())
    for kind in ("pins", "settings", "packages"):
        for name, old, new in found[kind]:
            echo(f"  {kind.removesuffix('s')} {name}: {old or 'none'} -> {new or 'none'}")
    if found["unknown"]:
        echo(f"  packages of {found['unknown']} layers are unknown: both bundles exclude them")
