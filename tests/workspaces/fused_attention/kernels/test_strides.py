"""Views: a kernel that assumed contiguous memory would mix up the elements of each of these."""

from __future__ import annotations

import pytest
import torch
from fused_attention import fused_attention
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

# The first example may wait for a compile.
many = settings(max_examples=150)

B, H, S, D = 2, 3, 37, 20


def plain(seed=0):
    return torch.randn(B, H, S, D, generator=torch.Generator().manual_seed(seed))


VIEWS = {
    "contiguous": lambda x: x,
    "heads behind seq": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "batch innermost but one": lambda x: x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
    "dim not innermost": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "every second row": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "every second element": lambda x: x.repeat_interleave(2, dim=3)[..., ::2],
    "offset into a larger tensor": lambda x: torch.nn.functional.pad(x, (3, 5, 2, 7, 1, 1))[:, 1:-1, 2:-7, 3:-5],
    "part of a packed projection": lambda x: torch.cat([x + 1, x, x - 1], dim=-1)[..., D : 2 * D],
    "reversed twice": lambda x: x.flip(2).flip(2),
}
EXPANDED = {
    "batch": lambda x: x[:1].expand(B, H, S, D),
    "heads": lambda x: x[:, :1].expand(B, H, S, D),
    "rows": lambda x: x[:, :, :1].expand(B, H, S, D),
    "dim": lambda x: x[..., :1].expand(B, H, S, D),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("which", [0, 1, 2], ids="qkv")
@pytest.mark.parametrize("view", VIEWS)
def test_views_give_what_contiguous_copies_give(which, view, dtype):
    arguments = [plain(i).to(dtype) for i in range(3)]
    expected = fused_attention(*arguments)
    arguments[which] = VIEWS[view](arguments[which])
    assert torch.equal(fused_attention(*arguments), expected)


@pytest.mark.parametrize("which", [0, 1, 2], ids="qkv")
@pytest.mark.parametrize("dimension", EXPANDED)
def test_expanded_views(which, dimension):
    arguments = [plain(i) for i in range(3)]
    arguments[which] = EXPANDED[dimension](arguments[which])
    out = fused_attention(*arguments)
    arguments[which] = arguments[which].contiguous()
    assert torch.equal(out, fused_attention(*arguments))
    assert out.reshape(-1).shape == (B * H * S * D,) and 0 not in out.stride()


@many
@given(views=st.tuples(*[st.sampled_from(sorted(VIEWS))] * 3), is_causal=st.booleans())
def test_any_mixture_of_views(assert_matches, views, is_causal):
    arguments = [VIEWS[view](plain(i)) for i, view in enumerate(views)]
    assert_matches(*arguments, is_causal=is_causal)


def test_output_has_the_memory_order_of_q():
    q = VIEWS["heads behind seq"](plain())
    out = fused_attention(q, q, q)
    assert out.stride() == q.stride()
    assert out.transpose(1, 2).reshape(B, S, H * D).data_ptr() == out.data_ptr()


def test_inputs_are_not_written():
    q, k, v = plain(0), plain(1), plain(2)
    before = [t.clone() for t in (q, k, v)]
    fused_attention(q, k, v, is_causal=True)
    assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v), strict=True))
