"""A layer of BERT (base: 768 wide, 12 heads, 3072 within) on a padded batch, 60 % full on average, end to end: its
forward pass, and a training step.

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

    def __init__(self, batch: int, seq: int, dtype: str, device: str = "cpu") -> None:
        self.lengths = cases.padding_lengths(batch, seq)
        valid = torch.arange(seq) < torch.tensor(self.lengths)[:, None]
        generator = torch.Generator().manual_seed(seq)
        x, gradient = (torch.randn(batch, seq, HIDDEN, generator=generator) * valid[..., None] for _ in range(2))
        self.x = x.to(device, cases.DTYPES[dtype])
        self.gradient = gradient.to(self.x)  # of the result, for a training step
        # Made once for a whole stack of layers.
        self.valid = valid.to(device)
        self.rows = self.valid.flatten().nonzero().flatten()
        self.ends = torch.tensor([0, *self.lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)


def encoder_layer(dtype: str, device: str = "cpu") -> torch.nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(HIDDEN, HEADS, WITHIN, dropout=0.0, activation="gelu", batch_first=True)
    return layer.to(device, cases.DTYPES[dtype]).eval()


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


def hugging_face(layer: Any, batch: Batch, attention: str) -> Callable[[], torch.Tensor]:
    """The same layer as transformers has it, with its "eager" or "sdpa" attention. Raises Unavailable."""
    try:
        from transformers import BertConfig
        from transformers.models.bert.modeling_bert import BertLayer
    except ImportError as error:
        raise cases.Unavailable("transformers is not installed") from error
    config = BertConfig(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=WITHIN,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=layer.norm1.eps,
        attn_implementation=attention,
    )
    theirs = BertLayer(config).to(batch.x).train(layer.training)
    own = layer.self_attn
    places = [theirs.attention.self.query, theirs.attention.self.key, theirs.attention.self.value]
    pairs = list(zip(places, zip(own.in_proj_weight.chunk(3), own.in_proj_bias.chunk(3))))
    for place, ours in (
        (theirs.attention.output.dense, own.out_proj),
        (theirs.attention.output.LayerNorm, layer.norm1),
        (theirs.intermediate.dense, layer.linear1),
        (theirs.output.dense, layer.linear2),
        (theirs.output.LayerNorm, layer.norm2),
    ):
        pairs.append((place, (ours.weight, ours.bias)))
    with torch.no_grad():
        for place, (weight, bias) in pairs:
            place.weight.copy_(weight)
            place.bias.copy_(bias)
    hidden = torch.zeros_like(batch.valid, dtype=batch.x.dtype).masked_fill(
        ~batch.valid, torch.finfo(batch.x.dtype).min
    )

    def run() -> torch.Tensor:
        out = theirs(batch.x, attention_mask=hidden[:, None, None])
        return out[0] if isinstance(out, tuple) else out

    run.parameters = theirs.parameters  # type: ignore[attr-defined]
    return run


def variants(layer: Any, batch: Batch) -> Dict[str, Callable[[], Callable[[], torch.Tensor]]]:
    """Makers of the variants, by name; those of the compiler take seconds. They raise Unavailable."""
    padding = ~batch.valid

    def compiled(function: Callable[..., torch.Tensor], **options: Any) -> Callable[[], torch.Tensor]:
        if not hasattr(torch, "compile"):
            raise cases.Unavailable("this torch has no torch.compile")
        return functools.partial(torch.compile(function, dynamic=False, fullgraph=True, **options), layer, batch)

    def nested() -> Callable[[], torch.Tensor]:
        if layer.training:
            raise cases.Unavailable("it is a path for inference")
        encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=True).eval()
        return functools.partial(encoder, batch.x, src_key_padding_mask=padding)

    return {
        "ours": lambda: functools.partial(packed, layer, batch),
        "torch": lambda: functools.partial(layer, batch.x, src_key_padding_mask=padding),
        # It packs too: torch turns the batch into a nested tensor.
        "torch-nested": nested,
        "sdpa": lambda: functools.partial(composed, layer, batch),
        "hugging-face-eager": lambda: hugging_face(layer, batch, "eager"),
        "hugging-face-sdpa": lambda: hugging_face(layer, batch, "sdpa"),
        "ours-compiled": lambda: compiled(packed),
        "sdpa-compiled": lambda: compiled(composed),
        "sdpa-max-autotune": lambda: compiled(composed, mode="max-autotune-no-cudagraphs"),
    }


def step_of(function: Callable[[], torch.Tensor], layer: Any, batch: Batch) -> Callable[[], Any]:
    """A training step without its optimizer. It returns the gradients of x and of the parameters."""
    parameters = list(getattr(function, "parameters", layer.parameters)())

    def step() -> Any:
        return torch.autograd.grad(function(), [batch.x, *parameters], batch.gradient)

    return step


def cell(
    batch_size: int,
    seq: int,
    dtype: str,
    settings: Settings,
    say: Callable[[str], None],
    direction: str = "forward",
) -> List[Record]:
    """The records of one batch, "forward" or "training", every variant checked first.

    Raises Wrong if a variant's valid rows, or in training the gradients of x there, differ from those of the layer
    around SDPA.
    """
    is_training = direction == "training"
    batch, layer = Batch(batch_size, seq, dtype, settings.device), encoder_layer(dtype, settings.device)
    layer.train(is_training)
    batch.x.requires_grad_(is_training)
    functions = {}
    with torch.enable_grad() if is_training else torch.inference_mode():

        def runnable(function: Callable[[], torch.Tensor]) -> Callable[[], Any]:
            return step_of(function, layer, batch) if is_training else function

        def value(function: Callable[[], Any]) -> torch.Tensor:
            out = function()
            return (out[0] if is_training else out)[batch.valid].double()

        right = value(runnable(functools.partial(composed, layer, batch)))
        if hasattr(torch, "compile"):
            torch._dynamo.reset()
        for name, make in variants(layer, batch).items():
            try:
                function = runnable(make())
                difference = float((value(function) - right).abs().max())
            except Exception as error:  # errors of the compiler, dynamo and inductor share no class
                if name == "ours":
                    raise
                say("left out: %s (%s)" % (name, (str(error).splitlines() or [type(error).__name__])[0]))
                continue
            # Written so that a NaN is wrong.
            if not difference <= TOLERANCES[dtype] * (float(right.abs().max()) if is_training else 1.0):
                raise Wrong("the layer %r differs from SDPA's by %g; it was not timed" % (name, difference))
            functions[name] = timing.Timed(function, methods.no_context)
        clock = timing.clock_of(settings.device)
        samples = timing.interleaved(functions, clock, settings.repeats, settings.budget_s)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    params = {
        "direction": direction,
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
