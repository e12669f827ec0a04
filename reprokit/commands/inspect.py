"""`reprokit inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.bundle.read import Bundle


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle.", autocompletion=completion.bundles)],
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show a bundle: images, layers, pins, requirements, extras.

    Checks its form. `reprokit load` also verifies its content.
    """
    from reprokit.bundle.load import signer
    from reprokit.bundle.read import opened

    with opened(file) as bundle:
        found = _described(bundle, signer(bundle, None))
    if as_json:
        dump(found)
    else:
        _print(found)


def _described(bundle: Bundle, signed: str) -> dict[str, Any]:
    from dataclasses import asdict

    from reprokit.bundle.layers import rows

    metadata = bundle.metadata
    images = [
        {
            **described.model_dump(exclude={"recipe_text", "lock_text"}),
            "has_recipe": bool(described.recipe_text),
            "has_lock": bool(described.lock_text),
            "layers": [asdict(row) for row in rows(image, {})],
        }
        for image, described in zip(bundle.images, metadata.images, strict=True)
    ]
    return {
        "file": str(bundle.path),
        "bytes": bundle.path.stat().st_size,
        "created": metadata.created,
        "reprokit": metadata.reprokit,
        "signed_by": signed,
        "images": images,
        "absent": list(metadata.absent),
        "parts": [part.model_dump() for part in metadata.parts],
        "inputs": metadata.inputs.model_dump(exclude={"recipes"}) if metadata.inputs else None,
    }


def _print(found: dict[str, Any]) -> None:
    from reprokit.formatting import size

    signed = f", signed by {found['signed_by']}" if found["signed_by"] else ", not signed"
    echo(f"{found['file']}: {size(found['bytes'])}, {found['created']} by reprokit {found['reprokit']}{signed}")
    for image in found["images"]:
        echo()
        echo(f"{image['name']}: {size(image['packed'])} here, {size(image['size'])} unpacked  {image['id'][:19]}")
        if image["recipe"]:
            carried = [what for what in ("recipe", "lock") if image[f"has_{what}"]]
            echo(f"  recipe   {image['recipe']}:{image['variant']} ({' and '.join(carried) or 'no text'} in it)")
        if image["pins"]:
            echo(f"  pins     {' '.join(f'{name}={value}' for name, value in sorted(image['pins'].items()))}")
        needs = [f"driver {image['min_driver']} or newer"] if image["min_driver"] else []
        needs += (
            [f"compute capability {', '.join(image['compute_capabilities'])}"] if image["compute_capabilities"] else []
        )
        if needs:
            echo(f"  needs    {'; '.join(needs)}")
        for layer in image["layers"]:
            amount = "excluded" if layer["packed"] is None else size(layer["packed"])
            echo(f"  {layer['diff_id'][7:19]} {amount:>9}  {layer['instruction'][:80]}".rstrip())
    if inputs := found["inputs"]:
        echo()
        amounts = f"{len(inputs['files'])} files, {len(inputs['packs'])} repositories"
        echo(f"inputs of {', '.join(inputs['targets'])}: {amounts}")
    for part in found["parts"]:
        echo()
        echo(f"{part['kind']} {part['name']}: {size(part['size'])}")
