"""Python source of a plan's forward pass: readable, and complete but for `linear`, `compiled` and the attention."""

import json
from typing import List

from . import operators
from .plans import ATTENTION, Part, Plan
from .shapes import Shape

_PARAMETERS = "x, w, mask"


def module(plan: Plan, shape: Shape) -> str:
    """A module with `forward(x, layers, mask)`.

    x: [batch, seq, hidden]. layers: a weights.LayerWeights each. mask: additive, [seq, seq] in the dtype of x, or None
    for the mask "none". Every fused segment is a function of its own, compiled as one region.
    """
    segments = [part for part in plan.parts if part[0] < part[1] and not _by_hand(plan, part)]
    fused = [
        f"{first}-{last}{' (hand-written)' if _by_hand(plan, (first, last)) else ''}" for first, last in plan.segments
    ]
    title = f"A BERT encoder layer by fusion plan {plan.value}. Fused operators: {', '.join(fused) or 'none'}."
    blocks = [
        _head(title, plan.uses_attention, shape),
        *(_function(part, shape) for part in segments),
        _layer(plan, shape),
        _FORWARD,
    ]
    return "\n\n\n".join(blocks) + "\n"


def part_module(part: Part, shape: Shape, hand_written: bool = False) -> str:
    """A module with `run(inputs, w)` for one part alone, for the search to measure."""
    plan = Plan(hand_written, tuple(place for place in (part[0], part[1] + 1) if 1 < place <= 15))
    body = [
        f"    [{_tuple(operators.inputs(part))}] = inputs",
        *_steps(plan, part, shape),
        f"    return {_tuple(operators.outputs(part))}",
    ]
    functions = [_function(part, shape)] if part[0] < part[1] and not _by_hand(plan, part) else []
    head = _head(f"Operators {part[0]} to {part[1]} of a BERT encoder layer.", hand_written, shape)
    return "\n\n\n".join([head, *functions, "\n".join(["def run(inputs, w):", *body])]) + "\n"


_FORWARD = """def forward(x, layers, mask):
    for w in layers:
        x = layer(x, w, mask)
    return x"""


def _by_hand(plan: Plan, part: Part) -> bool:
    return plan.hand_written and part == ATTENTION


def _head(title: str, with_attention: bool, shape: Shape) -> str:
    imports = ["import torch", "import torch.nn.functional as F"]
    constants = [
        f"SHAPE = Shape({_fields(shape)})",
        f"BATCH, SEQ, HEADS, HEAD_SIZE = {shape.batch}, {shape.seq}, {shape.heads}, {shape.head_size}",
        f"HIDDEN, SCALE, EPSILON = {shape.hidden}, {shape.head_size**-0.5!r}, 1e-12",
    ]
    if with_attention:
        imports.append("from fused_attention import fused_attention, masks")
        constants.append(f"ATTENDED = {shape.mask_text()}")
    imports += ["from operator_fusion.runtime import compiled, linear", "from operator_fusion.shapes import Shape"]
    return "\n\n".join([f'"""{title}"""', "\n".join(imports), "\n".join(constants)])


def _function(part: Part, shape: Shape) -> str:
    arguments = operators.inputs(part) + operators.weights(part)
    titles = [operator.title for operator in operators.LAYER[part[0] - 1 : part[1]]]
    return "\n".join(
        [
            f"@compiled({part[0]}, {part[1]}, SHAPE)",
            f"def fused_{part[0]}_{part[1]}({', '.join(arguments)}):",
            f'    """{", ".join(titles)}."""',
            *(f"    {_without_mask(line, shape)}" for line in operators.lines(part)),
            f"    return {_tuple(operators.outputs(part))}",
        ]
    )


def _layer(plan: Plan, shape: Shape) -> str:
    body = [line for part in plan.parts for line in _steps(plan, part, shape)]
    return "\n".join([f"def layer({_PARAMETERS}):", *body, "    return y"])


def _steps(plan: Plan, part: Part, shape: Shape) -> List[str]:
    """The statements of one part within `layer`."""
    if _by_hand(plan, part):
        return [f"    {operators.HAND_WRITTEN}"]
    names = operators.weights(part)
    if part[0] == part[1]:
        line = _without_mask(operators.LAYER[part[0] - 1].line, shape)
        for name in names:
            line = line.replace(name, f"w.{name}")
        return [f"    {line}"]
    arguments = operators.inputs(part) + [f"w.{name}" for name in names]
    return [f"    {_tuple(operators.outputs(part))} = fused_{part[0]}_{part[1]}({', '.join(arguments)})"]


def _without_mask(line: str, shape: Shape) -> str:
    if shape.mask == "none":
        line = line.replace("scores + mask", "scores").replace(", attn_mask=mask", "")
    return line


def _fields(shape: Shape) -> str:
    """The arguments that differ from the defaults."""
    given = [(name, value) for name, value in shape._asdict().items() if value != Shape._field_defaults.get(name)]
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in given)


def _tuple(names: List[str]) -> str:
    return ", ".join(names)
