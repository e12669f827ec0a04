"""The short way to the CPU kernel (csrc/direct.cpp): it takes plain calls alone, and nobody can tell it was taken."""

from __future__ import annotations

import sys

import pytest
import torch
from fused_attention import build, fused_attention, masks
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.compiler


def tensors(dtype=torch.float32, kv_heads=2):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, 20, 16), *[(2, kv_heads, 30, 16)] * 2)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


def direct(q, k, v, mask=None, structure=None, slopes=None, cu_q=None, cu_k=None, causal=False, scale=None):
    build.load()
    return build.direct()(q, k, v, mask, structure, slopes, cu_q, cu_k, 0, 0, causal, scale)


def usual(*arguments, **options):
    build.load()
    return torch.ops.fused_attention.forward(*arguments, **options)


BAND = torch.tensor([1, 1, 1, -9, 5, 0])
PLAIN = {
    "nothing": ({}, {}),
    "causal": ({"causal": True}, {"is_causal": True}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "bool": ({"mask": torch.arange(30) < 11},) * 2,
    "additive": ({"mask": torch.linspace(-1, 1, 600).view(20, 30)},) * 2,
    "structure": ({"structure": BAND},) * 2,
    "slopes": ({"slopes": torch.arange(4.0)}, {"alibi_slopes": torch.arange(4.0)}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("short", "long"), PLAIN.values(), ids=PLAIN)
def test_the_same_result(short, long, dtype):
    for view in (
        lambda t: t,
        lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
        lambda t: t[:, :1].expand_as(t),
    ):
        q, k, v = (view(t) for t in tensors(dtype))
        out, expected = direct(q, k, v, **short), usual(q, k, v, **long)
        assert torch.equal(out, expected) and out.stride() == expected.stride()
        assert (out.requires_grad, out.grad_fn, out.is_inference()) == (False, None, False)


@pytest.mark.parametrize("mask", [masks.Causal(), masks.Dense(torch.arange(30) < 7) & masks.SlidingWindow(9)], ids=repr)
def test_masks_are_lowered_on_the_way(mask):
    structure, tensor = mask.lower(20, 30)
    expected = usual(*tensors(), tensor, structure)
    assert torch.equal(direct(*tensors(), mask), expected)
    assert torch.equal(fused_attention(*tensors(), mask), expected)


def test_a_mask_that_does_not_fit_says_so_itself():
    mask = masks.Dense(torch.ones(3, 3, dtype=torch.bool)) | masks.Causal()
    assert direct(*tensors(), mask) is NotImplemented
    with pytest.raises(ValueError, match="mask is a tensor for 3 rows and 3 keys"):
        fused_attention(*tensors(), mask)


def test_an_interrupt_while_a_mask_is_lowered_is_not_lost():
    class Interrupted(masks.Causal):
        def lower(self, q_len, k_len):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        direct(*tensors(), Interrupted())


def test_packed_sequences():
    q, k, v = (t[:1] for t in tensors())
    ends_q, ends_k = torch.tensor([0, 3, 20]).int(), torch.tensor([0, 0, 30]).int()
    out = direct(q, k, v, cu_q=ends_q, cu_k=ends_k)
    assert torch.equal(out, usual(q, k, v, cu_seqlens_q=ends_q, cu_seqlens_k=ends_k))


def test_the_function_takes_it(monkeypatch):
    taken = []
    inner = build.direct() or (build.load(), build.direct())[1]
    monkeypatch.setattr(build, "_direct", lambda *arguments: taken.append(inner(*arguments)) or taken[-1])
    out = fused_attention(*tensors(), is_causal=True)
    assert out is taken[0]


class Subclass(torch.Tensor):
    pass


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.append(str(function))
        return function(*arguments, **(options or {}))


class SeenFunctions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, arguments=(), options=None):
        self.names.append(str(function))
        return function(*arguments, **(options or {}))


LEFT_TO_THE_USUAL_WAY = {
    "gradient": lambda q, k, v: direct(q, k, v.requires_grad_()),
    "parameter": lambda q, k, v: direct(torch.nn.Parameter(q), k, v),
    "gradient of the mask": lambda q, k, v: direct(q, k, v, torch.zeros(30, requires_grad=True)),
    "subclass": lambda q, k, v: direct(q, k.as_subclass(Subclass), v),
    "meta": lambda q, k, v: direct(q.to("meta"), k.to("meta"), v.to("meta")),
    "sparse": lambda q, k, v: direct(q.to_sparse(), k, v),
    "not a tensor": lambda q, k, v: direct(q, k, 1),
    "none": lambda q, k, v: direct(q, None, v),
    "wrong shape": lambda q, k, v: direct(q, k[0], v),
    "wrong dtype": lambda q, k, v: direct(q.double(), k, v),
    "number for a flag": lambda q, k, v: direct(q, k, v, causal=1),
    "integer for a float": lambda q, k, v: direct(q, k, v, scale=1),
    "infinite scale": lambda q, k, v: direct(q, k, v, scale=float("inf")),
    "too few arguments": lambda q, k, v: build.direct()(q, k, v),
    "negated view": lambda q, k, v: direct(torch._neg_view(q), k, v),
}


@pytest.mark.parametrize("call", LEFT_TO_THE_USUAL_WAY.values(), ids=LEFT_TO_THE_USUAL_WAY)
def test_other_calls_go_the_usual_way(call):
    assert call(*tensors()) is NotImplemented


@pytest.mark.parametrize("mode", [Seen, SeenFunctions, FakeTensorMode, torch.profiler.profile])
def test_modes_and_profilers_see_the_call(mode):
    arguments = tensors()
    with mode():
        assert direct(*arguments) is NotImplemented
    assert isinstance(direct(*arguments), torch.Tensor)


def test_dispatch_and_function_modes_see_the_operator():
    for mode in (Seen(), SeenFunctions()):
        with mode:
            fused_attention(*tensors())
        assert any("fused_attention.forward" in name for name in mode.names)


def test_a_profiler_sees_the_operator():
    build.load()
    with torch.profiler.profile() as profile:
        fused_attention(*tensors())
    assert "fused_attention::forward" in {event.key for event in profile.key_averages()}


def test_fake_tensors():
    with FakeTensorMode() as mode:
        out = fused_attention(*(mode.from_tensor(t) for t in tensors()))
    assert isinstance(out, FakeTensor) and out.shape == (2, 4, 20, 16)


def test_a_subclass_comes_back():
    q, k, v = tensors()
    assert type(fused_attention(q.as_subclass(Subclass), k, v)) is Subclass


def test_traces_hold_the_operator():
    q, k, v = tensors()
    graph = make_fx(lambda q, k, v: fused_attention(q, k, v))(q, k, v)
    assert any("fused_attention.forward" in str(node.target) for node in graph.graph.nodes)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap():
    q, k, v = (torch.stack([t, t + 1]) for t in tensors())
    out = torch.vmap(fused_attention)(q, k, v)
    torch.testing.assert_close(out, torch.stack([fused_attention(*one) for one in zip(q, k, v, strict=True)]))


def test_inference_mode():
    q, k, v = tensors()
    expected = fused_attention(q, k, v)
    with torch.inference_mode():
        out = direct(q, k, v)
        again = direct(out, k.clone(), v)
    assert torch.equal(out, expected) and out.is_inference() and again.is_inference()


def test_no_grad_takes_what_requires_a_gradient():
    q, k, v = tensors()
    q.requires_grad_()
    with torch.no_grad():
        out = direct(q, k, v)
    assert torch.equal(out, fused_attention(q.detach(), k, v)) and not out.requires_grad


def test_a_tangent_goes_the_usual_way_even_without_grad_mode():
    q, k, v = tensors()
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        assert direct(dual, k, v) is NotImplemented


def test_references_are_given_back():
    arguments = (*tensors(), torch.ones(30, dtype=torch.bool))
    direct(*arguments)
    before = [sys.getrefcount(t) for t in arguments]
    for _ in range(100):
        out = direct(*arguments)
    assert [sys.getrefcount(t) for t in arguments] == before
    assert sys.getrefcount(out) == 2  # the name and the argument


def test_a_library_without_it_is_used_all_the_same(monkeypatch):
    expected = fused_attention(*tensors(), is_causal=True)
    monkeypatch.setattr(build, "_direct", None)
    assert torch.equal(fused_attention(*tensors(), is_causal=True), expected)
