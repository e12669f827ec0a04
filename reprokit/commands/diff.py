"""`reprokit diff`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.bundle.read import Bundle, VerifiedBundle
    from reprokit.oci.model import Image
    from reprokit.verify.layers import ComparedImage

    _Verified = Callable[[Bundle], VerifiedBundle]

_Compared = Annotated[
    str, typer.Argument(metavar="FILE|IMAGE", help="A bundle, a lock, or an image.", autocompletion=completion.bundles)
]


def diff(
    before: _Compared,
    after: _Compared,
    as_json: options.Json = False,
) -> None:
    """Compare two bundles, two images or two locks.

    Of bundles it compares images of the same name, or the only image of each: layers, files, pins, packages, settings,
    sizes. Exit code 1 if they differ.
    """
    from reprokit.supply.lock.file import SUFFIX

    sides = {"lock" if s.endswith(SUFFIX) else "bundle" if _is_bundle(s) else "image" for s in (before, after)}
    if sides == {"bundle"}:
        comparisons = _bundles(Path(before), Path(after))
    elif "lock" in sides:
        comparisons = [_locks(before, after)]
    else:
        comparisons = [_images(before, after)]
    if as_json:
        dump(comparisons)
    else:
        for comparison in comparisons:
            _print(comparison)
    if not all(comparison["same"] for comparison in comparisons):
        raise typer.Exit(1)


def _is_bundle(text: str) -> bool:
    return text.endswith(".rkit") or text.startswith(("/", ".")) or Path(text).is_file()


def _locks(before: str, after: str) -> dict[str, Any]:
    from reprokit.errors import UsageError
    from reprokit.supply.lock.file import SUFFIX, read

    for file in (before, after):
        if not file.endswith(SUFFIX):
            raise UsageError("a lock is compared with another lock", file)
    try:
        changes = read(Path(before)).changes(read(Path(after)))
    except FileNotFoundError as error:
        raise UsageError("there is no such lock", str(error.filename)) from None
    return {"lock": f"{before} -> {after}", "same": not changes, "changes": changes}


def _images(before: str, after: str) -> dict[str, Any]:
    """Compare two images; one may be in a bundle."""
    from dataclasses import asdict

    from reprokit.engine import Engine
    from reprokit.image.labels import image_name
    from reprokit.recipe.find import is_recipe, target
    from reprokit.verify.layers import ImageInEngine, image_in_bundle
    from reprokit.verify.run import compare_images

    engine = Engine.connect()
    with ExitStack() as stack:

        def of(text: str, other: str) -> ComparedImage:
            if _is_bundle(text):
                return stack.enter_context(image_in_bundle(Path(text), other))
            return ImageInEngine.of(engine, image_name(target(text)) if is_recipe(text) else text)

        compared = compare_images(of(before, after), of(after, before))
    # As in `verify`: times and names of owners do not count, as containers do not see them and engines differ.
    same, verdict = compared.verdict != "differs", compared.verdict
    return {**asdict(compared), "image": f"{before} -> {after}", "same": same, "verdict": verdict}


def _bundles(before: Path, after: Path) -> list[dict[str, Any]]:
    from functools import cache

    from reprokit.bundle.read import opened, verify

    with opened(before) as old, opened(after) as new:
        verified = cache(verify)  # every byte is hashed, once a bundle
        return [_of(name, old, new, left, right, verified) for name, left, right in _pairs(old, new)]


def _pairs(old: Bundle, new: Bundle) -> list[tuple[str, Image | None, Image | None]]:
    if len(old.images) == len(new.images) == 1:
        left, right = old.images[0], new.images[0]
        name = left.name if left.name == right.name else f"{left.name} -> {right.name}"
        return [(name, left, right)]
    lefts, rights = ({image.name: image for image in bundle.images} for bundle in (old, new))
    return [(name, lefts.get(name), rights.get(name)) for name in sorted({*lefts, *rights})]


def _of(
    name: str, old: Bundle, new: Bundle, left: Image | None, right: Image | None, verified: _Verified
) -> dict[str, Any]:
    from dataclasses import asdict

    from reprokit.bundle.compare import compare

    compared = compare(old, new, left, right)
    files = _files(old, new, left, right, verified) if left and right and (compared.removed or compared.added) else []
    return {"image": name, "same": compared.same, **asdict(compared), "layers": files}


def _files(old: Bundle, new: Bundle, left: Image, right: Image, verified: _Verified) -> list[dict[str, Any]]:
    """The differences of the layers, if the bundles have all of them."""
    from dataclasses import asdict

    from reprokit.verify.layers import ImageInBundle
    from reprokit.verify.run import compare_images

    if not all(layer.blob for image in (left, right) for layer in image.layers):
        return []
    compared = compare_images(ImageInBundle(verified(old), left), ImageInBundle(verified(new), right))
    return [asdict(layer) for layer in compared.layers]


def _print(comparison: dict[str, Any]) -> None:
    from reprokit.formatting import size
    from reprokit.verify.compare import layer_lines

    same = (
        "the same files, other times or names of owners" if comparison.get("verdict") == "other times" else "the same"
    )
    echo(f"{comparison.get('image') or comparison['lock']}: {same if comparison['same'] else 'differs'}")
    before, after = comparison.get("size", (0, 0))
    if before != after:
        echo(f"  unpacked {size(before)} -> {size(after)}")
    for sign, layers in (("-", comparison.get("removed", ())), ("+", comparison.get("added", ()))):
        for layer in layers:
            amount = "excluded" if layer["packed"] is None else size(layer["packed"])
            echo(f"  {sign} layer {layer['diff_id'][7:19]} {amount:>9}  {layer['instruction'][:70]}".rstrip())
    for line in layer_lines(comparison.get("layers", ())):
        echo(f"  {line}")
    for kind in ("pins", "settings", "packages", "changes"):
        for name, old, new in comparison.get(kind, ()):
            echo(f"  {'' if kind == 'changes' else kind.removesuffix('s')} {name}: {old or 'none'} -> {new or 'none'}")
    if comparison.get("unknown"):
        echo(f"  packages of {comparison['unknown']} layers are unknown: both bundles exclude them")
