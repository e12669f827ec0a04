"""The output of `list --blocks` and `show BLOCK`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reprokit.tables import table
from reprokit.untrusted.terminal import document, dump

if TYPE_CHECKING:
    from reprokit.recipe.blocks import BlockSpec


def list_blocks(as_json: bool) -> None:
    """List the blocks that recipes can use, also the user's own."""
    blocks = known_blocks()
    if as_json:
        dump([{**spec.model_dump(), "file": file} for spec, file in blocks.values()])
        return
    rows = [(spec.name, spec.does, ", ".join(spec.after), file or "bundled") for spec, file in blocks.values()]
    table(("block", "what it does", "comes after", "file"), rows)


def show_block(spec: BlockSpec, file: str, as_json: bool) -> None:
    """Show a block with its options; `file` is empty for a bundled one."""
    if as_json:
        dump({**spec.model_dump(), "file": file})
    else:
        document(f"{spec.name} ({file or 'bundled'})\n\n{block_text(spec)}")


def known_blocks() -> dict[str, tuple[BlockSpec, str]]:
    """The bundled blocks, and the user's with their files, by name."""
    from reprokit import paths
    from reprokit.recipe.blocks import block_names, block_spec, own_block, own_block_files

    blocks = {name: (block_spec(name), "") for name in block_names()}
    for path in own_block_files(paths.recipe_dirs()).values():
        block = own_block(path)
        blocks[block.spec.name] = (block.spec, str(path))
    return dict(sorted(blocks.items()))


def block_text(spec: BlockSpec) -> str:
    """The description, requirements and options of a block, in Markdown."""
    lines = [spec.does, ""]
    for what, names in (("Needs the pins", spec.pins), ("Comes after", spec.after)):
        if names:
            lines += [f"{what} {', '.join(f'`{name}`' for name in names)}."]
    if spec.installs:
        lines += [f"Installs the variant's `{spec.installs}`."]
    if spec.build_args:
        lines += ["Its commands see `build_args`."]
    if spec.repeats:
        lines += ["It can be used several times."]
    if lines[-1]:
        lines += [""]
    if spec.options:
        lines += ["| option | type | default | meaning |", "|---|---|---|---|"]
        for name, option in spec.options.items():
            default = "required" if option.required else in_code(option.default)
            choices = f" ({', '.join(option.choices)})" if option.choices else ""
            lines += [f"| `{name}` | {option.type} | {default} | {cell(option.does + choices)} |"]
        lines += [""]
    return "\n".join(lines)


def in_code(value: Any) -> str:
    """A default as code, nothing for an empty one."""
    return "" if value in (None, "", [], ()) else f"`{json.dumps(value)}`"


def cell(text: str) -> str:
    """Text in a table of Markdown."""
    return text.replace("|", "\\|")
