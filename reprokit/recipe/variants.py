"""Add a variant to a recipe's file, keeping comments and order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text, recipe_text
from reprokit.untrusted import files


def add_variant(target: Target, name: str, description: str, pins: Mapping[str, str]) -> None:
    """Write a variant that extends the target's with these pins; `base` is the image.

    Raises UsageError, and OSError if the file cannot be written.
    """
    where = str(target.path)
    if name in target.recipe.variants:
        raise UsageError(f"{target.recipe.name} has a variant {name!r} already", where, "choose another name")
    changed = _with_variant(recipe_text(target.path), target, name, description, pins)
    added = load_text(changed, where, target.path.stem).variants.get(name)
    if added is None or any(({**added.pins, "base": added.base}).get(pin) != pins[pin] for pin in pins):
        raise UsageError("cannot add a variant to a recipe of this layout", where, "write it by hand")
    with files.Folder(target.path.parent) as folder, folder.replacing(target.path.name) as file:
        file.write(changed.encode("utf-8"))


def _with_variant(text: str, target: Target, name: str, description: str, pins: Mapping[str, str]) -> str:
    """The recipe with the new variant after its last one."""
    lines = text.splitlines(keepends=True)
    document = yaml.read(text, str(target.path))
    start = document.line(("variants",))
    first = lines[document.line(("variants", next(iter(document.data["variants"])))) - 1]
    indent = " " * (len(first) - len(first.lstrip(" "))) or "  "
    end = next((n for n in range(start, len(lines)) if re.match(r"[^\s#]", lines[n])), len(lines))
    while end > start and re.match(r"\s*$|#", lines[end - 1]):
        end -= 1
    values = {pin: json.dumps(value) for pin, value in pins.items()}
    added = [f"{name}:", f"  extends: {target.variant_name}", f"  description: {description}"]
    if target.variant.historic:
        added.append("  historic: false")
    if "base" in values:
        added.append(f"  base: {values.pop('base')}")
    if values:
        added.append("  pins: {" + ", ".join(f"{pin}: {value}" for pin, value in values.items()) + "}")
    return "".join([*lines[:end], "\n", *(f"{indent}{line}\n" for line in added), *lines[end:]])
