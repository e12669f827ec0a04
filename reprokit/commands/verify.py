"""`reprokit verify`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.engine import Engine
    from reprokit.recipe.find import Target
    from reprokit.verify.layers import ComparedImage
    from reprokit.verify.run import Verification


def verify(
    name: options.RecipeName,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="IMAGE|BUNDLE", help="Compare with this instead of the recipe's own image."),
    ] = None,
    offline: options.Offline = False,
    secret: options.Secrets = [],
    as_json: options.Json = False,
) -> None:
    """Build a recipe again from its lock, and compare the result with the image that is there.

    Exit code 0 if both have the same files, 1 if a file or a setting differs.
    """
    import os
    from dataclasses import asdict

    from reprokit.display import status
    from reprokit.engine import Engine
    from reprokit.image import trust
    from reprokit.image.build_secrets import parse_secrets
    from reprokit.recipe.find import target as find_target
    from reprokit.verify.run import compare_images, known_differences, rebuilt

    target, secrets = find_target(name), parse_secrets(secret, os.environ)
    _require_lock(target)
    engine = Engine.connect()
    with _image(engine, target, against) as image:
        with rebuilt(engine, target, offline, secrets) as (again, seconds), status(f"comparing with {image.name}"):
            verification = compare_images(image, again, known_differences(target), seconds)
        if verification.image_id:
            trust.record_verified(engine, verification.image_id, verification.verdict)
    if as_json:
        dump({**asdict(verification), "verdict": verification.verdict})
    else:
        _print(verification)
    if verification.verdict == "differs":
        raise typer.Exit(1)


def _require_lock(target: Target) -> None:
    from reprokit.errors import UsageError
    from reprokit.image.lock.read import variant_lock

    if variant_lock(target) is None:
        hint = f"`reprokit lock {target.label}`, then build it"
        raise UsageError(f"{target.label} has no lock, so two builds may have other inputs", str(target.path), hint)


def _image(engine: Engine, target: Target, against: str | None) -> AbstractContextManager[ComparedImage]:
    from reprokit.image.labels import image_name
    from reprokit.verify.layers import ImageInEngine, image_in_bundle

    if against and (Path(against).is_file() or against.endswith(".rkit")):
        return image_in_bundle(Path(against), image_name(target))
    return nullcontext(ImageInEngine.of(engine, against or image_name(target)))


def _print(verification: Verification) -> None:
    from dataclasses import asdict

    from reprokit.verify.compare import layer_lines

    for line in layer_lines([asdict(layer) for layer in verification.layers]):
        echo(line)
    for diff_id in verification.only_in_one:
        echo(f"layer {diff_id[7:19]}: in one image only")
    for setting, before, after in verification.settings:
        echo(f"setting {setting}: {before or 'none'} -> {after or 'none'}")
    answer = {
        "same": "is what its lock gives, byte for byte",
        "other times": "has the files that its lock gives; only times or names of owners differ",
        "differs": "differs from what its lock gives",
    }
    echo(f"{verification.image} {answer[verification.verdict]} (rebuilt in {verification.seconds:.0f} s)")
