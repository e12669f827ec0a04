"""What the best plan is compared with, each as a function without arguments that returns the last layer's output."""

from typing import Any, Callable, Dict

import torch
import torch.nn.functional as F

from . import runtime
from .measure import Bench
from .plans import ALL_FUSED
from .weights import GEMMS, LayerWeights

Function = Callable[[], Any]

# The two that must be beaten. Both run the plan that fuses everything, which calls scaled_dot_product_attention with
# the mask, with the same matrix product as every plan.
EAGER, COMPILED = "eager", "torch.compile"


def baselines(bench: Bench, report: Callable[[str], None]) -> Dict[str, Function]:
    """The last two have torch's own matrix product; `report` says why one is missing."""
    found = {EAGER: bench.forward(ALL_FUSED, compiling=False), COMPILED: bench.forward(ALL_FUSED)}
    for name, make in (("TransformerEncoderLayer", encoder_layers), ("BertLayer", bert_layers)):
        try:
            found[name] = make(bench)
            with torch.no_grad():
                found[name]()
        except ImportError as error:
            found.pop(name, None)
            report(f"{name} is left out: {error}")
    return found


def encoder_layers(bench: Bench) -> Function:
    """torch's own layer on its fast path, which takes a boolean mask and needs inference mode."""
    shape = bench.shape
    layers = []
    for weights in bench.layers:
        layer = torch.nn.TransformerEncoderLayer(
            shape.hidden, shape.heads, shape.inner, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True
        )
        modules = {
            "self_attn.in_proj_": "qkv",
            "self_attn.out_proj.": "output",
            "linear1.": "inner",
            "linear2.": "outer",
            "norm1.": "norm_1",
            "norm2.": "norm_2",
        }
        _fill(layer, {theirs + kind: f"{ours}_{kind}" for theirs, ours in modules.items() for kind in _KINDS}, weights)
        layers.append(layer.eval())
    hidden = None if bench.mask is None else bench.mask.isinf()

    def run() -> torch.Tensor:
        x = bench.x
        for layer in layers:
            x = layer(x, src_mask=hidden)
        return x

    return run


def bert_layers(bench: Bench) -> Function:
    """Hugging Face's layer with SDPA. Raises ImportError without transformers."""
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    shape = bench.shape
    config = BertConfig(
        hidden_size=shape.hidden, num_attention_heads=shape.heads, intermediate_size=shape.inner, layer_norm_eps=1e-12
    )
    config._attn_implementation = "sdpa"
    modules = {
        "attention.output.dense.": "output",
        "attention.output.LayerNorm.": "norm_1",
        "intermediate.dense.": "inner",
        "output.dense.": "outer",
        "output.LayerNorm.": "norm_2",
    }
    layers = []
    for weights in bench.layers:
        layer = BertLayer(config)
        _fill(layer, {theirs + kind: f"{ours}_{kind}" for theirs, ours in modules.items() for kind in _KINDS}, weights)
        for kind in _KINDS:
            thirds = getattr(weights, f"qkv_{kind}").chunk(3)
            for name, third in zip(("query", "key", "value"), thirds):
                setattr(getattr(layer.attention.self, name), kind, torch.nn.Parameter(third, requires_grad=False))
        layers.append(layer.eval())
    mask = None if bench.mask is None else bench.mask[None, None].expand(shape.batch, 1, -1, -1)

    def run() -> Any:
        x = bench.x
        for layer in layers:
            out = layer(x, attention_mask=mask)
            x = out[0] if isinstance(out, tuple) else out
        return x

    return run


def gemms(bench: Bench) -> Dict[str, Function]:
    """The four GEMMs of all layers and nothing else, by product: no plan can take less time than the better."""
    rows = bench.x.reshape(-1, bench.shape.hidden)
    wide = rows.repeat(1, 4).contiguous()

    def run(product: Callable[..., torch.Tensor]) -> None:
        for weights in bench.layers:
            for name in GEMMS:
                product(wide if name == "outer_weight" else rows, getattr(weights, name))

    return {"gemms": lambda: run(runtime.linear), "gemms-stock": lambda: run(F.linear)}


_KINDS = ("weight", "bias")


def _fill(module: torch.nn.Module, names: Dict[str, str], weights: LayerWeights) -> None:
    """Puts our tensors in the place of a module's parameters, by their names."""
    for theirs, ours in names.items():
        folder, _, last = theirs.rpartition(".")
        parameter = torch.nn.Parameter(getattr(weights, ours), requires_grad=False)
        setattr(module.get_submodule(folder), last, parameter)
