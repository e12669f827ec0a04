"""Views: a kernel that assumed contiguous memory would mix up the elements of each of these."""

from __future__ import annotations

import pytest
import torch
from fused_attention import fused_attention
from hypothesis import given, settings
from hypothesis import strategies as st

many = settings(max_examples=60)
B, H, S, D = SIZES = (2, 3, 37, 20)


def plain(seed=0):
    return torch.randn(SIZES, generator=torch.Generator().manual_seed(seed))


VIEWS = {
    "contiguous": lambda x: x,
    "heads behind seq": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "batch innermost but one": lambda x: x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
    "dim not innermost": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "every second row": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "every second element": lambda x: x.repeat_interleave(2, dim=3)[..., ::2],
    "offset into a larger tensor": lambda x: torch.nn.functional.pad(x, (3, 5, 2, 7, 1, 1))[:, 1:-1, 2:-7, 3:-5],
    "part of a packed projection": lambda x: torch.cat([x + 1, x, x - 1], dim=-1)[..., D : 2 * D],
    "expanded batch": lambda x: x[:1].expand(SIZES),
    "expanded heads": lambda x: x[:, :1].expand(SIZES),
    "expanded rows": lambda x: x[:, :, :1].expand(SIZES),
    "expanded dim": lambda x: x[..., :1].expand(SIZES),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("which", [0, 1, 2], ids="qkv")
@pytest.mark.parametrize("view", VIEWS)
def test_views_give_what_contiguous_copies_give_and_inputs_are_not_written(which, view, dtype):
    arguments = [plain(i).to(dtype) for i in range(3)]
    arguments[which] = VIEWS[view](arguments[which])
    copies = [t.clone(memory_format=torch.contiguous_format) for t in arguments]
    out = fused_attention(*arguments)
    assert torch.equal(out, fused_attention(*copies)) and 0 not in out.stride()
    assert all(map(torch.equal, arguments, copies))


@many
@given(views=st.tuples(*[st.sampled_from(sorted(VIEWS))] * 3), is_causal=st.booleans())
def test_any_mixture_of_views(assert_matches, views, is_causal):
    assert_matches(*(VIEWS[view](plain(i)) for i, view in enumerate(views)), is_causal=is_causal)


def test_output_has_the_memory_order_of_q():
    q = VIEWS["heads behind seq"](plain())
    out = fused_attention(q, q, q)
    assert out.stride() == q.stride()
    assert out.transpose(1, 2).reshape(B, S, H * D).data_ptr() == out.data_ptr()
