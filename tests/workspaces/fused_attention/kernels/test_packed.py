"""Packed sequences of different lengths: each must come out as it does alone. Wrong ones: test_op_checks.py."""

from __future__ import annotations

import pytest
import torch
from fused_attention import masks
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=40)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SLOPES = torch.tensor([0.5, 0.25, 0.0, 1.0])


def ends(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


@pytest.fixture(scope="session")
def packed(tensors):
    """q, k and v, and the options of the call."""

    def make(q_lengths, k_lengths=None, dtype=torch.float32, **options):
        inputs = tensors(dtype, batch=1, kv_heads=2, q_len=sum(q_lengths), k_len=sum(k_lengths or q_lengths))
        options["cu_seqlens"] = ends(q_lengths)
        if k_lengths is not None:
            options["cu_seqlens_k"] = ends(k_lengths)
        return inputs, options

    return make


LENGTHS = {
    "one": ([70], None),
    "several": ([3, 64, 130, 1], None),
    "empty ones": ([0, 5, 0, 0, 77, 0], None),
    "nothing": ([0, 0], None),
    "keys of other lengths": ([5, 0, 64, 100, 3], [9, 7, 0, 30, 150]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_as_each_alone(assert_matches, packed, lengths, is_causal, dtype):
    inputs, options = packed(*lengths, dtype, is_causal=is_causal)
    out = assert_matches(*inputs, **options)
    if lengths[1] is not None:
        assert not out[:, :, 5:69].any()  # queries of a sequence without keys


@many
@given(
    lengths=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=1, max_size=6),
    dtype=st.sampled_from(DTYPES),
    is_causal=st.booleans(),
    bound=st.sampled_from([0, 7]),
    slopes=st.sampled_from([None, SLOPES]),
    mask=st.sampled_from(["none", "bool", "additive"]),
)
def test_any_lengths(assert_matches, packed, lengths, dtype, is_causal, bound, slopes, mask):
    q_lengths, k_lengths = (list(side) for side in zip(*lengths, strict=True))
    longest = (max(q_lengths) + bound or 1, max(k_lengths) + bound or 1)
    inputs, options = packed(q_lengths, k_lengths, dtype, is_causal=is_causal, alibi_slopes=slopes)
    if bound or mask != "none":
        options.update(max_seqlen=longest[0], max_seqlen_k=longest[1])
    tensor = None
    if mask != "none":
        tensor = torch.randn(len(lengths), 1, *longest, generator=torch.Generator().manual_seed(1))
        tensor = tensor > 0 if mask == "bool" else tensor
    assert_matches(*inputs, tensor, slack=1e-5, **options)


@pytest.mark.parametrize("bound", [None, 150])
def test_masks_count_from_the_start_of_each_sequence(assert_matches, packed, bound):
    mask = masks.SlidingWindow(5) | (masks.GlobalTokens([3]) & masks.Padding([30, 0, 100, 7]))
    inputs, options = packed([40, 0, 130, 7], max_seqlen=bound)
    assert_matches(*inputs, mask, **options)
