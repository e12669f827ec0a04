"""The cases that the benchmark checks and times: their sizes, their tensors and their masks."""

import itertools
import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .. import masks

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Largest error against float64 for values of unit variance: a rounding of the output (up to 4) in the dtype
# and, in float32, of the sums.
TOLERANCES = {"float32": 2e-5, "bfloat16": 1.6e-2, "float16": 2e-3}

BATCHES = (1, 8, 16)
SEQS = (16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048)
MASKS = (
    "none",
    "causal",
    "window",
    "dilated",
    "strided",
    "fixed",
    "longformer",
    "bigbird",
    "padding",
    "prefix",
    "documents",
)
FULL = 0.6  # of a padded batch, on average

# mask_mod of flex_attention: whether (batch, head, row, key) are attended to.
Rule = Callable[[Any, Any, Any, Any], Any]


class Unavailable(Exception):
    """A method cannot compute a case here; the message says why."""


class Case(NamedTuple):
    batch: int
    heads: int
    seq: int
    dim: int
    dtype: str
    mask: str
    kv_heads: Optional[int] = None  # as many as heads

    def params(self) -> Dict[str, Any]:
        params = dict(self._asdict())
        params["kv_heads"] = self.kv_heads or self.heads
        return params


class Inputs(NamedTuple):
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    is_causal: bool
    mask: "Optional[masks.Mask]"  # for ours; None with is_causal
    attended: Optional[torch.Tensor]  # for the others: boolean, broadcastable to the scores; None with is_causal
    rule: Optional[Rule]  # the same for flex_attention, on the tensors' device
    lengths: Optional[List[int]]  # of a padded batch
    work: int  # pairs of a query and a key that are attended to, over batch and heads

    def flop(self) -> int:
        """Useful work: a multiplication and an addition an element of both products, unmasked pairs alone."""
        return 4 * self.q.shape[-1] * self.work

    def compulsory_bytes(self) -> int:
        """q, k, v and the result, each once."""
        rows = self.q.numel() * 2 + self.k.numel() * 2
        return rows * self.q.element_size()

    def without_padding(self) -> Tuple[int, int]:
        """flop and compulsory_bytes of a padded batch's rows alone."""
        lengths = self.lengths or []
        full = sum(lengths) / (len(lengths) * self.q.shape[2])
        flop = 4 * self.q.shape[-1] * self.q.shape[1] * sum(length * length for length in lengths)
        return flop, int(full * self.compulsory_bytes())


def grid(
    batches: Sequence[int],
    heads: int,
    seqs: Sequence[int],
    dim: int,
    dtypes: Sequence[str],
    mask_names: Sequence[str],
) -> List[Case]:
    """Small batches first: a run that is stopped early has one batch complete."""
    product = itertools.product(batches, dtypes, mask_names, seqs)
    return [Case(batch, heads, seq, dim, dtype, mask) for batch, dtype, mask, seq in product]


def correctness_cases(dtypes: Sequence[str]) -> List[Case]:
    """Few but difficult cases: lengths and head dimensions that fit no tile, grouped heads, each mask."""
    sizes = [
        (2, 3, 1, 1, None),
        (1, 4, 17, 64, 2),
        (2, 2, 127, 80, 1),
        (1, 2, 200, 256, None),
        (1, 12, 128, 64, None),
    ]
    return [
        Case(batch, heads, seq, dim, dtype, mask, kv_heads)
        for dtype in dtypes
        for mask in MASKS
        for batch, heads, seq, dim, kv_heads in sizes
    ]


def inputs(case: Case, device: str) -> Inputs:
    """Tensors of unit variance, laid out as projections are: [batch, seq, heads, dim], transposed."""
    generator = torch.Generator().manual_seed(case.seq * 1000 + case.dim)

    def tensor(heads: int) -> torch.Tensor:
        x = torch.randn(case.batch, case.seq, heads, case.dim, generator=generator)
        return x.to(device=device, dtype=DTYPES[case.dtype]).transpose(1, 2)

    kv_heads = case.kv_heads or case.heads
    q, k, v = tensor(case.heads), tensor(kv_heads), tensor(kv_heads)
    seq, pairs = case.seq, case.batch * case.heads
    if case.mask == "none":
        return Inputs(q, k, v, False, None, None, None, None, pairs * seq * seq)
    if case.mask == "causal":
        return Inputs(q, k, v, True, None, None, _causal, None, pairs * seq * (seq + 1) // 2)
    mask = mask_of(case.mask, case.batch, seq)
    elements = mask.elements(seq, seq)
    work = int(elements.sum()) * (pairs // (elements.shape[0] * elements.shape[1]))
    if bool((elements == elements[:, :, :1]).all()):
        elements = elements[:, :, :1]  # one row for all, as frameworks pass a padding mask
    lengths = padding_lengths(case.batch, seq) if case.mask == "padding" else None
    rule = rule_of(case.mask, case.batch, seq, device)
    return Inputs(q, k, v, False, mask, elements.to(device), rule, lengths, work)


def padding_lengths(batch: int, seq: int) -> List[int]:
    """From 0.2 to 1.0 of seq, 0.6 on average."""
    shares = [FULL] if batch == 1 else [0.2 + 0.8 * i / (batch - 1) for i in range(batch)]
    return [max(1, round(share * seq)) for share in shares]


def document_lengths(seq: int) -> List[int]:
    """Four documents of about 0.4, 0.3, 0.2 and 0.1 of seq, as far as they fit."""
    ends = sorted({max(1, seq * tenths // 10) for tenths in (4, 7, 9)} | {seq})
    return [end - start for start, end in zip([0, *ends], ends)]


def window_of(seq: int) -> int:
    return max(1, seq // 16)


def global_tokens_of(seq: int) -> int:
    return max(1, seq // 32)


def step_of(seq: int) -> int:
    """Of the strided and the fixed mask, as in the artifact of AToffer (SC 2024)."""
    return max(1, math.isqrt(seq) if hasattr(math, "isqrt") else int(math.sqrt(seq)))


def bigbird_block_of(seq: int) -> int:
    """The largest power of two, at most 64, at which the model of Hugging Face does not fall back to full attention.

    That takes more than 5 + 2 * 3 blocks: transformers, modeling_big_bird.py, `max_tokens_to_attend`.
    """
    block = 64
    while block > 1 and 11 * block >= seq:
        block //= 2
    return block


def mask_of(name: str, batch: int, seq: int) -> "masks.Mask":
    """The mask of a name in MASKS, "none" and "causal" aside."""
    window, step = window_of(seq), step_of(seq)
    if name == "window":
        return masks.SlidingWindow(window)
    if name == "dilated":
        return masks.DilatedWindow(window, 2)
    if name == "strided":
        return masks.Strided(step)
    if name == "fixed":
        return masks.Fixed(step)
    if name == "longformer":
        return masks.Longformer(2 * window, global_tokens_of(seq))
    if name == "bigbird":
        return masks.BigBird(bigbird_block_of(seq))
    if name == "padding":
        return masks.Padding(padding_lengths(batch, seq))
    if name == "prefix":
        return masks.Prefix([max(1, seq // 4)])
    if name == "documents":
        return masks.Documents(lengths=document_lengths(seq))
    raise ValueError("%r is none of %s" % (name, ", ".join(MASKS)))


def rule_of(name: str, batch: int, seq: int, device: str) -> Rule:
    """The same as a mask_mod, by arithmetic if possible: flex_attention is slower with a table."""
    window, step, tokens = window_of(seq), step_of(seq), global_tokens_of(seq)
    if name == "window":
        return lambda b, h, i, j: (i - j).abs() <= window
    if name == "dilated":
        return lambda b, h, i, j: ((i - j).abs() <= 2 * window) & ((i - j) % 2 == 0)
    if name == "strided":
        return lambda b, h, i, j: (i >= j) & ((i - j < step) | ((i - j) % step == 0))
    if name == "fixed":
        return lambda b, h, i, j: (i >= j) & ((i // step == j // step) | (j % step == step - 1))
    if name == "longformer":
        return lambda b, h, i, j: ((i - j).abs() <= window) | (i < tokens) | (j < tokens)
    if name == "prefix":
        return lambda b, h, i, j: (i >= j) | (j < max(1, seq // 4))
    if name == "padding":
        lengths = torch.tensor(padding_lengths(batch, seq), device=device)
        return lambda b, h, i, j: j < lengths[b]
    if name == "documents":
        counts = torch.tensor(document_lengths(seq))
        owner = torch.repeat_interleave(torch.arange(len(counts)), counts).to(device)
        return lambda b, h, i, j: owner[i] == owner[j]
    if name == "bigbird":
        # Random blocks have no formula; all elements of a block are the same.
        block = bigbird_block_of(seq)
        table = mask_of(name, batch, seq).elements(seq, seq)[0, 0, ::block, ::block].contiguous().to(device)
        return lambda b, h, i, j: table[i // block, j // block]
    raise ValueError("%r is none of %s" % (name, ", ".join(MASKS)))


def _causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j
