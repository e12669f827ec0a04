"""The JSON Schema of recipe files, from the models that read them."""

from __future__ import annotations

from typing import Any

from reprokit import paths
from reprokit.recipe.blocks import BlockSpec, block_names, block_spec, own_block, own_block_files
from reprokit.recipe.model import Recipe
from reprokit.recipe.pin_names import PIN_NAMES


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a recipe file."""
    result = Recipe.model_json_schema(by_alias=True, mode="validation")
    result = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "reprokit recipe", **result}
    definitions = result["$defs"]
    own = (own_block(path).spec for path in own_block_files(paths.recipe_dirs()).values())
    definitions["Block"] = _block({spec.name: spec for spec in (*map(block_spec, block_names()), *own)})
    # A variant with `extends` inherits required fields.
    definitions["Variant"]["required"] = []
    definitions["Variant"]["properties"]["pins"]["propertyNames"] = {"enum": [*PIN_NAMES]}
    _allow_null(definitions["Variant"]["properties"])
    return result


def _block(specs: dict[str, BlockSpec]) -> dict[str, Any]:
    """The schema of a block, written as `NAME` or `NAME: {option: value}`."""
    types = {"boolean": {"type": "boolean"}, "string": {"type": "string"}, "source": {"type": "string"}}
    many = {"type": "array", "items": {"type": "string"}}
    with_options = {}
    for name, spec in specs.items():
        options = {}
        for key, option in spec.options.items():
            kind = dict(types.get(option.type, many), description=option.does)
            options[key] = {**kind, "enum": [*option.choices]} if option.choices else kind
        with_options[name] = {
            "description": spec.does,
            "type": ["object", "null"],
            "properties": options,
            "additionalProperties": False,
            **({"required": needed} if (needed := [k for k, o in spec.options.items() if o.required]) else {}),
        }
    return {
        "description": "One use of a block: its name alone, or with options.",
        "anyOf": [
            {"enum": [*specs]},
            {
                "type": "object",
                "properties": with_options,
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ],
    }


def _allow_null(properties: dict[str, Any]) -> None:
    """In a variant with `extends`, null removes an inherited key."""
    for key in ("pins", "env", "build_args"):
        for where in ("additionalProperties", "patternProperties"):
            values = properties[key].get(where)
            if isinstance(values, dict):
                nullable = {k: {"anyOf": [v, {"type": "null"}]} for k, v in values.items()}
                properties[key][where] = (
                    nullable if where == "patternProperties" else {"anyOf": [values, {"type": "null"}]}
                )
