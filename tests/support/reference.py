"""docs/fields.md and docs/blocks.md, generated from the schema, so that no field, option or block is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reprokit.commands._blocks import block_text, cell, in_code
from reprokit.recipe.blocks import OwnFront, block_names, block_spec
from reprokit.recipe.pin_names import PIN_NAMES
from reprokit.recipe.schema import schema

_MADE = (
    "This page is generated from the schema by "
    "`.venv/bin/python -m pytest tests/setup/test_reference.py --update-golden`."
)
_FIELDS = f"""\
# Reference: fields of a recipe

What each field of `recipes/NAME.yaml` means. [recipes.md](recipes.md) shows a recipe, [blocks.md](blocks.md) has the
blocks. {_MADE}

Pins are {", ".join(f"`{name}`" for name in PIN_NAMES)}. Sizes are written `4GiB` (1024³) or `500MB` (1000²).
"""
_BLOCKS = f"""\
# Reference: blocks

A block builds one component and checks it at its end. `base` comes first without being named. Options follow the name:
`- python: {{system_site_packages: true}}`. `reprokit list --blocks` lists them, `reprokit show NAME` shows one. {_MADE}

cargo and bazel have no block: they download from registries of their own, which a lock cannot name. Put what they need
into the source or `files` (`cargo vendor`, `bazel vendor`), and build with the block `run`.
"""
_OWN = """\
## Own blocks

A block of your own is a file `blocks/NAME.j2` beside the recipe, or in a folder of `$REPROKIT_BLOCKS` (separated by
`:`). The comment at its top describes it:

```jinja
{#
does: hwloc of the distribution, whose `lstopo` prints the machine's processors and caches.
options:
  graphics: {type: boolean, default: false, does: also the version that draws}
#}
{% block final %}
RUN {% include "expect.j2" %}
{{ ["hwloc" if options.graphics else "hwloc-nox"]|apt_install }}
    expect lstopo runnable "$(lstopo-no-graphics --version >&2 && echo runnable)"
{% endblock %}
```

- `{% block final %}` is written into the image. `{% block build %}` is a stage of its own, if the comment has
  `build_from`; copy from it with `COPY --from=NAME`.
- An image has the same layers wherever it is built if a block copies whole trees to `/`, such as
  `COPY --from=NAME /product/ /`: engines give a folder that COPY writes into the time of the build.
- A template knows `pins`, `major` (the first part of each pin), `options`, `sources`, `files`, `before` (the blocks
  before it) and `block`. Every value needs a quoting filter: `|sh` in a command, `|word` in COPY and WORKDIR, `|env` in
  ENV.
- A block with an option of the type `secrets` writes `{% include "secrets.j2" %}` at the beginning of each RUN that
  reads [build secrets](recipes.md#build-secrets).
- Packages go through `|apt_install`, so that `reprokit lock` finds them. A wrong build stops at
  `expect WHAT EXPECTED FOUND`.

Recipes and their blocks may come from strangers, so a block can do no more than a recipe:

- It writes RUN without options, ENV `NAME=VALUE`, WORKDIR with an absolute path, and COPY from stages of the same
  Dockerfile. FROM, ADD, ARG, LABEL, SHELL, heredocs and parser directives are refused.
- Its template can use loops, conditions, and some filters and methods. Macros, imports and attributes are refused.
- It is rendered in a process of its own that can open no file and no socket, and has 512 MiB and 3 s.

| key of the comment | meaning |
|---|---|
"""


def fields_page() -> str:
    """docs/fields.md."""
    whole = schema()
    parts = [_FIELDS, _model("The recipe", whole)]
    seen, queue = {"Block"}, [whole]
    while queue:
        for name in _references(queue.pop(0)["properties"]):
            if name not in seen:
                seen.add(name)
                queue.append(whole["$defs"][name])
                parts.append(_model(name, queue[-1]))
    return "\n".join(parts)


def blocks_page() -> str:
    """docs/blocks.md."""
    own = "".join(f"| `{name}` | {field.description} |\n" for name, field in OwnFront.model_fields.items())
    return "\n".join([_BLOCKS, *(f"## {name}\n\n{block_text(block_spec(name))}" for name in block_names()), _OWN + own])


def _model(title: str, part: dict[str, Any]) -> str:
    rows = [
        f"| `{name}` | {_type(field)} | {_default(field)} | {cell(field.get('description', ''))} |"
        for name, field in part["properties"].items()
    ]
    head = ["| field | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {title}", "", part["description"], "", *head, *rows, ""])


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "[block](blocks.md)" if name == "Block" else f"[{name}](#{name.lower()})"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if choices := field.get("anyOf") or field.get("oneOf"):
        kinds = [_type(each) for each in choices if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if field.get("type") == "object":
        values = [*field.get("patternProperties", {}).values(), field.get("additionalProperties")]
        return f"mapping to {_type(values[0])}"
    if isinstance(field.get("type"), list):
        return "size"
    return {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}.get(
        field.get("type", ""), "value"
    )


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return "required"
    return "" if isinstance(field["default"], dict) else in_code(field["default"])


def _references(value: Any) -> Iterable[str]:
    """The names of the models in a part of the schema, in order."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)
