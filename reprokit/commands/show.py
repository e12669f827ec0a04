"""`reprokit show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.tables import pairs
from reprokit.untrusted.terminal import console, dump, echo, paged

if TYPE_CHECKING:
    from reprokit.bundle.read import Bundle
    from reprokit.recipe.find import Target
    from reprokit.recipe.model import Recipe

Row = tuple[str, str]
_OTHER_COLUMNS = 26  # width of the layer's ID, size and gaps


def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME[:VARIANT]|BLOCK|FILE.rkit", autocompletion=completion.targets)
    ] = "",
    schema: bool = options.flag("--schema", "Print the JSON Schema of recipes, for editors."),
    sbom: bool = options.flag("--sbom", "Of a bundle: print what its image was made of, as CycloneDX JSON."),
    json: options.Json = False,
) -> None:
    """Show a recipe: its paper, variants, pins and benchmarks; or a block, or a bundle.

    Checks only the form of a bundle. `reprokit load` also verifies its content.
    """
    from reprokit.errors import UsageError
    from reprokit.recipe.find import is_recipe, recipe_files, targets
    from reprokit.recipe.spelling import nearest

    if schema:
        from reprokit.recipe.schema import schema as of_recipes

        dump(of_recipes())
        return
    if not name:
        raise UsageError("name a recipe, a block or a bundle", hint="`reprokit list` shows the recipes")
    if sbom or name.endswith(".rkit") or (not is_recipe(name) and _is_file(name)):
        _show_bundle(Path(name), json, sbom)
        return
    if not is_recipe(name):
        from reprokit.commands._blocks import known_blocks, show_block

        if name in (blocks := known_blocks()):
            show_block(*blocks[name], json)
            return
        if nearest(name, [*recipe_files(), *blocks]) != nearest(name, recipe_files()):
            hint = "`reprokit list` shows the recipes, `reprokit list --blocks` the blocks"
            raise UsageError(f"no recipe and no block is called {name!r}{nearest(name, blocks)}", hint=hint)
    chosen = targets(name)
    if json:
        dump(as_json(chosen))
        return
    recipe = chosen[0].recipe
    with paged():
        _print([(recipe.name, [*recipe_rows(recipe)]), *((t.label, [*variant_rows(t)]) for t in chosen)])


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # such as too long a name
        return False


def as_json(chosen: list[Target]) -> dict[str, Any]:
    """The recipe as its file writes it, `extends` resolved, with the `chosen` variants only; sizes are bytes."""
    recipe = chosen[0].recipe
    data = recipe.model_dump(mode="json", by_alias=True)
    data["default"] = recipe.default_variant
    data["variants"] = {t.variant_name: data["variants"][t.variant_name] for t in chosen}
    return {**data, "file": str(chosen[0].path)}


def recipe_rows(recipe: Recipe) -> Iterator[Row]:
    """The rows about the paper."""
    paper = recipe.paper
    yield "paper", paper.title
    yield "venue", f"{paper.venue} {paper.year}"
    yield "licence", paper.licence
    yield from paper.urls.items()
    for claim in recipe.claims:
        yield "claim", f"{claim.metric}: {claim.value:g} {claim.unit} ({claim.hardware}; {claim.where})"


def variant_rows(target: Target) -> Iterator[Row]:
    """The rows about a variant."""
    variant, recipe, name = target.variant, target.recipe, target.variant_name
    if variant.description:
        yield "", variant.description
    yield "base", variant.base
    if variant.pins:
        yield "pins", "  ".join(f"{pin} {version}" for pin, version in variant.pins.items())
    if variant.blocks:
        yield "blocks", ", ".join(block.name for block in variant.blocks)
    for source in variant.sources:
        yield "source", f"{source.git} at {source.commit[:12]}{f' ({source.ref})' if source.ref else ''}"
    if requires := ", ".join(requirements(target)):
        yield "requires", requires
    if variant.ports:
        yield "ports", ", ".join(str(port) for port in variant.ports)
    for key, benchmark in recipe.benchmarks.items():
        if not benchmark.variants or name in benchmark.variants:
            yield "benchmark", f"{key}{' (GPU)' if benchmark.gpu else ''}: {_one_line(benchmark.command)}"
    smoke = [s for s in recipe.smoke if not s.variants or name in s.variants]
    if smoke:
        yield "smoke", f"{len(smoke)} commands, {sum(s.gpu for s in smoke)} of them on a GPU"


def requirements(target: Target) -> Iterator[str]:
    """The requirements on the host."""
    requires = target.variant.requires
    if requires.gpu != "none":
        yield f"GPU ({requires.gpu})"
    if requires.compute_capability:
        yield f"compute capability {', '.join(requires.compute_capability)}"
    if requires.driver:
        yield f"driver {requires.driver}"
    for what, size in (("memory", requires.memory), ("disk", requires.disk)):
        if size:
            yield f"{size / 1024**3:g} GiB {what}"


def _one_line(command: str) -> str:
    lines = command.strip().splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0]} ..."


def _print(sections: list[tuple[str, list[Row]]]) -> None:
    from rich.text import Text

    screen = console()
    for number, (title, rows) in enumerate(sections):
        if number:
            screen.print()
        screen.print(Text(title, style="bold"))
        pairs(rows)


def _show_bundle(file: Path, as_json: bool, sbom: bool) -> None:
    """Show a bundle: images, layers, pins, requirements, extras; with `sbom` the SBOM of its image."""
    from reprokit.bundle.load import signer
    from reprokit.bundle.read import opened

    with opened(file) as bundle:
        if sbom:
            dump(_sbom(bundle))
            return
        described = _bundle_as_json(bundle, signer(bundle, None))
    if as_json:
        dump(described)
    else:
        with paged():
            _print_bundle(described)


def _sbom(bundle: Bundle) -> Any:
    """The SBOM of the only image, made from its lock, not read from the bundle. Raises UsageError."""
    import json

    from reprokit.bundle.sbom import of_image
    from reprokit.errors import UsageError

    images = bundle.metadata.images
    if len(images) != 1:
        hint = f"each is a file of the bundle: tar -xf {bundle.path} sbom"
        raise UsageError(f"the bundle has {len(images)} images, and an SBOM is of one", str(bundle.path), hint)
    return json.loads(of_image(images[0]))


def _bundle_as_json(bundle: Bundle, signed: str) -> dict[str, Any]:
    from dataclasses import asdict

    from reprokit.bundle.compare import rows

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


def _print_bundle(bundle: dict[str, Any]) -> None:
    from reprokit.formatting import size
    from reprokit.tables import paragraph, table, width

    signed = f", signed by {bundle['signed_by']}" if bundle["signed_by"] else ", not signed"
    paragraph(
        f"{bundle['file']}: {size(bundle['bytes'])}, {bundle['created']} by reprokit {bundle['reprokit']}{signed}"
    )
    for image in bundle["images"]:
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
    if inputs := bundle["inputs"]:
        echo()
        amounts = f"{len(inputs['files'])} files, {len(inputs['packs'])} repositories"
        paragraph(f"inputs of {', '.join(inputs['targets'])}: {amounts}", later="  ")
    for recipe in dict.fromkeys(file["recipe"] for file in bundle["beside"]):
        names = [file["path"] for file in bundle["beside"] if file["recipe"] == recipe]
        paragraph(", ".join(names), f"files of {recipe}: ", "  ")
    for part in bundle["parts"]:
        echo()
        paragraph(f"{part['kind']} {part['name']}: {size(part['size'])}", later="  ")
