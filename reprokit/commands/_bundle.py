"""What `show` prints of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.untrusted.text import dump, echo, paged

if TYPE_CHECKING:
    from reprokit.bundle.read import Bundle

_OTHER_COLUMNS = 26  # of the layer's ID and size, and between them


def show_bundle(file: Path, as_json: bool, sbom: bool) -> None:
    """Show a bundle: images, layers, pins, requirements, extras; with `sbom` what its image was made of."""
    from reprokit.bundle.load import signer
    from reprokit.bundle.read import opened

    with opened(file) as bundle:
        if sbom:
            dump(_sbom(bundle))
            return
        found = _described(bundle, signer(bundle, None))
    if as_json:
        dump(found)
    else:
        with paged():
            _print(found)


def _sbom(bundle: Bundle) -> Any:
    """The SBOM of the only image, from its lock and not from the bundle's own file of it. Raises UsageError."""
    import json

    from reprokit.bundle.sbom import of_image
    from reprokit.errors import UsageError

    images = bundle.metadata.images
    if len(images) != 1:
        hint = f"each is a file of the bundle: tar -xf {bundle.path} sbom"
        raise UsageError(f"the bundle has {len(images)} images, and an SBOM is of one", str(bundle.path), hint)
    return json.loads(of_image(images[0]))


def _described(bundle: Bundle, signed: str) -> dict[str, Any]:
    from dataclasses import asdict

    from reprokit.bundle.layers import rows

    metadata = bundle.metadata
    images = [
        {
            **described.model_dump(exclude={"recipe_text", "lock_text"}),
            "has_recipe": bool(described.recipe_text),
            "has_lock": bool(described.lock_text),
            "layers": [asdict(row) for row in rows(image)],
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
        "beside": [{"recipe": f.recipe, "path": f.path, "bytes": len(f.content)} for f in metadata.beside],
        "parts": [part.model_dump() for part in metadata.parts],
        "inputs": metadata.inputs.model_dump(exclude={"recipes"}) if metadata.inputs else None,
    }


def _print(found: dict[str, Any]) -> None:
    from reprokit.formatting import size
    from reprokit.tables import paragraph, table, width

    signed = f", signed by {found['signed_by']}" if found["signed_by"] else ", not signed"
    paragraph(f"{found['file']}: {size(found['bytes'])}, {found['created']} by reprokit {found['reprokit']}{signed}")
    for image in found["images"]:
        echo()
        paragraph(f"{image['name']}: {size(image['packed'])} here, {size(image['size'])} unpacked  {image['id'][:19]}")
        if image["recipe"]:
            carried = [what for what in ("recipe", "lock") if image[f"has_{what}"]]
            echo(f"  recipe   {image['recipe']}:{image['variant']} ({' and '.join(carried) or 'no text'} in it)")
        if image["pins"]:
            pins = " ".join(f"{name}={value}" for name, value in sorted(image["pins"].items()))
            paragraph(pins, "  pins     ", " " * 11)
        needs = [f"driver {image['min_driver']} or newer"] if image["min_driver"] else []
        if image["compute_capabilities"]:
            needs.append(f"compute capability {', '.join(image['compute_capabilities'])}")
        if needs:
            paragraph("; ".join(needs), "  needs    ", " " * 11)
        layers = []
        for layer in image["layers"]:
            amount = "excluded" if layer["packed"] is None else size(layer["packed"])
            instruction = " ".join(layer["instruction"].split())
            layers.append((f"  {layer['diff_id'][7:19]}", amount, instruction[: max(20, width(110) - _OTHER_COLUMNS)]))
        table(("  layer", "size", "instruction"), layers, words=(0, 2))
    if inputs := found["inputs"]:
        echo()
        amounts = f"{len(inputs['files'])} files, {len(inputs['packs'])} repositories"
        paragraph(f"inputs of {', '.join(inputs['targets'])}: {amounts}", rest="  ")
    for recipe in dict.fromkeys(file["recipe"] for file in found["beside"]):
        names = [file["path"] for file in found["beside"] if file["recipe"] == recipe]
        paragraph(", ".join(names), f"files of {recipe}: ", "  ")
    for part in found["parts"]:
        echo()
        paragraph(f"{part['kind']} {part['name']}: {size(part['size'])}", rest="  ")
