"""A layer of BERT (base: 768 wide, 12 heads, 3072 within) on a padded batch, 60 % full on average, end to end.

The batch and its fill are those of ByteTransformer (IPDPS 2023), whose idea it is to leave the padding out of every
matrix of the layer and not of attention alone.
"""

import functools
import statistics
from typing import Any, Callable, Dict, List

import torch
from torch.nn import functional

from ..op import fused_attention
from . import cases, methods, timing
from .measure import Record, Settings

HIDDEN, HEADS, WITHIN = 768, 12, 3072
METRIC = "fused_attention.bert_layer"
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.1, "float16": 1e-2}


class Wrong(Exception):
    """A variant's result differs from the others'."""


class Batch:
    """x: [batch, seq, hidden], zero where padded. `valid`: [batch, seq], True where it is not."""

    def __init__(self, batch: int, seq: int, dtype: str) -> None:
        self.lengths = cases.padding_lengths(batch, seq)
        self.valid = torch.arange(seq) < torch.tensor(self.lengths)[:, None]
        generator = torch.Generator().manual_seed(seq)
        x = torch.randn(batch, seq, HIDDEN, generator=generator) * self.valid[..., None]
        self.x = x.to(cases.DTYPES[dtype])
        # Made once for a whole stack of layers.
        self.rows = self.valid.flatten().nonzero().flatten()
        self.ends = torch.tensor([0, *self.lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def encoder_layer(dtype: str) -> torch.nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(HIDDEN, HEADS, WITHIN, activation="gelu", batch_first=True)
    return layer.to(cases.DTYPES[dtype]).eval()


def packed(layer: Any, batch: Batch) -> torch.Tensor:
    """Ours: removes the padding from x and restores it in the result; both are timed."""
    x = batch.x.flatten(0, 1).index_select(0, batch.rows)
    q, k, v = _project(layer, x[None])
    attended = fused_attention(q, k, v, cu_seqlens=batch.ends, max_seqlen=batch.x.shape[1])
    out = _rest(layer, x[None], attended)[0]
    padded = out.new_zeros(batch.valid.numel(), HIDDEN)
    return padded.index_copy_(0, batch.rows, out).view(batch.x.shape)


def composed(layer: Any, batch: Batch) -> torch.Tensor:
    """The same layer around scaled_dot_product_attention."""
    q, k, v = _project(layer, batch.x)
    attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=batch.valid[:, None, None])
    return _rest(layer, batch.x, attended)


def _project(layer: Any, x: torch.Tensor) -> List[torch.Tensor]:
    attention = layer.self_attn
    qkv = functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    return [t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in qkv.chunk(3, dim=-1)]


def _rest(layer: Any, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    x = layer.norm1(x + layer.self_attn.out_proj(attended.transpose(1, 2).flatten(2)))
    return layer.norm2(x + layer.linear2(functional.gelu(layer.linear1(x))))


def variants(layer: Any, batch: Batch) -> Dict[str, Callable[[], torch.Tensor]]:
    """The variants by name; compiled ones need torch.compile."""
    padding = ~batch.valid
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=True).eval()
    found: Dict[str, Callable[[], torch.Tensor]] = {
        "ours": functools.partial(packed, layer, batch),
        "torch": functools.partial(layer, batch.x, src_key_padding_mask=padding),
        # It packs too: torch turns the batch into a nested tensor.
        "torch-nested": functools.partial(encoder, batch.x, src_key_padding_mask=padding),
        "sdpa": functools.partial(composed, layer, batch),
    }
    if hasattr(torch, "compile"):
        torch._dynamo.reset()
        for name, function in (("ours-compiled", packed), ("sdpa-compiled", composed)):
            found[name] = functools.partial(torch.compile(function, dynamic=False, fullgraph=True), layer, batch)
    return found


def cell(batch_size: int, seq: int, dtype: str, settings: Settings, say: Callable[[str], None]) -> List[Record]:
    """The records of one batch, every variant checked first. CPU only.

    Raises Wrong where a variant's valid rows differ from those of the layer around SDPA.
    """
    batch, layer = Batch(batch_size, seq, dtype), encoder_layer(dtype)
    functions = {}
    with torch.inference_mode():
        right = composed(layer, batch)[batch.valid].double()
        for name, function in variants(layer, batch).items():
            try:
                out = function()
            except Exception as error:  # errors of the compiler, dynamo and inductor share no class
                if name == "ours":
                    raise
                say("left out: %s (%s)" % (name, (str(error).splitlines() or [type(error).__name__])[0]))
                continue
            difference = float((out[batch.valid].double() - right).abs().max())
            # Written so that a NaN is wrong.
            if not difference <= TOLERANCES[dtype]:
                raise Wrong("the layer %r differs from SDPA's by %g; it was not timed" % (name, difference))
            functions[name] = timing.Timed(function, methods.no_context)
        clock = timing.clock_of(settings.device)
        samples = timing.interleaved(functions, clock, settings.repeats, settings.budget_s)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    params = {
        "batch": batch_size,
        "seq": seq,
        "hidden": HIDDEN,
        "heads": HEADS,
        "dtype": dtype,
        "full": cases.FULL,
        "device": settings.device,
        "threads": torch.get_num_threads(),
        "clock": clock,
    }
    return [
        {
            "metric": METRIC,
            "impl": name,
            "unit": "ms",
            "median": medians[name],
            "samples": values,
            "params": params,
            "ratio_to": {other: medians[other] / medians[name] for other in medians if other != name},
        }
        for name, values in samples.items()
    ]
