"""Everything of torch that may take part in a call sees the operator: modes, profilers, traces, subclasses."""

from __future__ import annotations

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


def operator(*arguments, **options):
    build.load()
    return torch.ops.fused_attention.forward(*arguments, **options)


@pytest.mark.parametrize("mask", [masks.Causal(), masks.Dense(torch.arange(30) < 7) & masks.SlidingWindow(9)], ids=repr)
def test_masks_are_lowered_on_the_way(mask):
    structure, tensor = mask.lower(20, 30)
    assert torch.equal(fused_attention(*tensors(), mask), operator(*tensors(), tensor, structure))


def test_a_mask_that_does_not_fit_is_named():
    mask = masks.Dense(torch.ones(3, 3, dtype=torch.bool)) | masks.Causal()
    with pytest.raises(ValueError, match="mask is a tensor for 3 rows and 3 keys"):
        fused_attention(*tensors(), mask)


def test_an_interrupt_while_a_mask_is_lowered_is_not_lost():
    class Interrupted(masks.Causal):
        def lower(self, q_len, k_len):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fused_attention(*tensors(), Interrupted())


def test_packed_sequences():
    q, k, v = (t[:1] for t in tensors())
    ends_q, ends_k = torch.tensor([0, 3, 20]).int(), torch.tensor([0, 0, 30]).int()
    out = fused_attention(q, k, v, cu_seqlens=ends_q, cu_seqlens_k=ends_k)
    assert torch.equal(out, operator(q, k, v, cu_seqlens_q=ends_q, cu_seqlens_k=ends_k))


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


def test_fake_tensors_and_structured_masks():
    structure, _ = masks.Causal().lower(20, 30)
    with FakeTensorMode() as mode:
        fakes = tuple(mode.from_tensor(t) for t in tensors())
        fake_structure = mode.from_tensor(structure)
        for options in ({"structure": fake_structure}, {}):
            arguments = (*fakes,) if options else (*fakes, None, fake_structure)
            assert operator(*arguments, **options).shape == (2, 4, 20, 16)


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
        out = fused_attention(q, k, v)
        again = fused_attention(out, k.clone(), v)
    assert torch.equal(out, expected) and out.is_inference() and again.is_inference()


def test_no_grad_takes_what_requires_a_gradient():
    q, k, v = tensors()
    q.requires_grad_()
    with torch.no_grad():
        out = fused_attention(q, k, v)
    assert torch.equal(out, fused_attention(q.detach(), k, v)) and not out.requires_grad
