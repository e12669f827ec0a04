"""The 15 operators of a BERT encoder layer, as lines of Python that the generator puts together.

Constants in the lines (BATCH, SEQ, ...) are defined at the top of every generated module, `linear` and `F` are imported
there.
"""

from typing import Dict, List, NamedTuple, Set, Tuple

from .plans import Part


class Operator(NamedTuple):
    """`reads` and `makes`: activations. `weights`: fields of weights.LayerWeights."""

    title: str
    reads: Tuple[str, ...]
    weights: Tuple[str, ...]
    makes: Tuple[str, ...]
    line: str


_HEADS_FIRST = ".view(BATCH, SEQ, 3, HEADS, HEAD_SIZE).permute(2, 0, 3, 1, 4).unbind(0)"
_LAYER_NORM = "F.layer_norm({0}, (HIDDEN,), {1}_weight, {1}_bias, EPSILON)"

LAYER: Tuple[Operator, ...] = (
    Operator("QKV GEMM", ("x",), ("qkv_weight",), ("qkv",), "qkv = linear(x, qkv_weight)"),
    Operator("QKV bias", ("qkv",), ("qkv_bias",), ("q", "k", "v"), f"q, k, v = (qkv + qkv_bias){_HEADS_FIRST}"),
    Operator("QK^T", ("q", "k"), (), ("scores",), "scores = torch.matmul(q, k.transpose(-2, -1)) * SCALE"),
    Operator("mask", ("scores", "mask"), (), ("masked",), "masked = scores + mask"),
    Operator("softmax", ("masked",), (), ("shares",), "shares = torch.softmax(masked, dim=-1)"),
    Operator("PV", ("shares", "v"), (), ("context",), "context = torch.matmul(shares, v)"),
    Operator(
        "transpose", ("context",), (), ("merged",), "merged = context.transpose(1, 2).reshape(BATCH, SEQ, HIDDEN)"
    ),
    Operator("output GEMM", ("merged",), ("output_weight",), ("output",), "output = linear(merged, output_weight)"),
    Operator(
        "bias and residual",
        ("output", "x"),
        ("output_bias",),
        ("attended",),
        "attended = output + output_bias + x",
    ),
    Operator(
        "layer norm 1",
        ("attended",),
        ("norm_1_weight", "norm_1_bias"),
        ("h",),
        "h = " + _LAYER_NORM.format("attended", "norm_1"),
    ),
    Operator("GEMM 2", ("h",), ("inner_weight",), ("inner",), "inner = linear(h, inner_weight)"),
    Operator("bias and activation", ("inner",), ("inner_bias",), ("active",), "active = F.gelu(inner + inner_bias)"),
    Operator("GEMM 3", ("active",), ("outer_weight",), ("outer",), "outer = linear(active, outer_weight)"),
    Operator("bias and residual", ("outer", "h"), ("outer_bias",), ("summed",), "summed = outer + outer_bias + h"),
    Operator(
        "layer norm 2",
        ("summed",),
        ("norm_2_weight", "norm_2_bias"),
        ("y",),
        "y = " + _LAYER_NORM.format("summed", "norm_2"),
    ),
)

# Neighbours that one library call computes, where they are in the same segment.
TOGETHER: Dict[Part, str] = {
    (1, 2): f"q, k, v = linear(x, qkv_weight, qkv_bias){_HEADS_FIRST}",
    (3, 6): "context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
    (8, 9): "attended = linear(merged, output_weight, output_bias) + x",
    (11, 12): "active = F.gelu(linear(h, inner_weight, inner_bias))",
    (13, 14): "summed = linear(active, outer_weight, outer_bias) + h",
}

HAND_WRITTEN = "merged = fused_attention(q, k, v, ATTENDED, scale=SCALE).transpose(1, 2).reshape(BATCH, SEQ, HIDDEN)"


def lines(part: Part) -> List[str]:
    """The statements of a part, neighbours computed together where a library does."""
    found, operator = [], part[0]
    while operator <= part[1]:
        last = next((last for first, last in TOGETHER if first == operator and last <= part[1]), operator)
        found.append(TOGETHER.get((operator, last), LAYER[operator - 1].line))
        operator = last + 1
    return found


def inputs(part: Part) -> List[str]:
    """The activations that a part reads and does not make, in the order of their use."""
    made: Set[str] = set()
    found: List[str] = []
    for operator in LAYER[part[0] - 1 : part[1]]:
        found += [name for name in operator.reads if name not in made and name not in found]
        made.update(operator.makes)
    return found


def weights(part: Part) -> List[str]:
    return [name for operator in LAYER[part[0] - 1 : part[1]] for name in operator.weights]


def outputs(part: Part) -> List[str]:
    """What a part makes for later operators; `y` for the last."""
    later = {name for operator in LAYER[part[1] :] for name in operator.reads} | {"y"}
    made = [name for operator in LAYER[part[0] - 1 : part[1]] for name in operator.makes]
    return [name for name in made if name in later]
