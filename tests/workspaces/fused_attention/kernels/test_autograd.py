"""Autograd, torch.compile and memory in a training step; the gradients' values are in test_gradient.py."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from fused_attention import build, fused_attention

pytestmark = pytest.mark.compiler


def tensors(dtype=torch.float32, seed=0, batch=2, kv_heads=2, group=2, q_len=33, k_len=40, dim=16):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, kv_heads * group, q_len, dim), *[(batch, kv_heads, k_len, dim)] * 2]
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def test_only_what_is_asked_for():
    q, k, v = tensors()
    k.requires_grad_()
    fused_attention(q, k, v).sum().backward()
    assert q.grad is None and v.grad is None and k.grad.shape == k.shape
    found = torch.ops.fused_attention.backward(q, [False, False, True, False, False], q, k.detach(), v)
    assert [t.numel() for t in found] == [0, 0, v.numel(), 0, 0]


@pytest.mark.filterwarnings("ignore:Input .* is not a double precision")
def test_gradcheck():
    inputs = [t.requires_grad_() for t in tensors(q_len=5, k_len=6, dim=3)]
    mask = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.4]).requires_grad_()

    def attention(q, k, v, mask, slopes):
        return fused_attention(q, k, v, mask, is_causal=True, alibi_slopes=slopes)

    arguments = (*inputs, mask, slopes)
    # Central differences in float32: 1e-2 balances their truncation and the rounding of the result.
    assert torch.autograd.gradcheck(attention, arguments, eps=1e-2, atol=3e-3, rtol=1e-2, nondet_tol=0.0)


def test_the_same_bits_from_run_to_run():
    q, k, v = tensors(batch=3, q_len=300, k_len=300, dim=32)

    def run():
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        return torch.autograd.grad(fused_attention(*leaves, is_causal=True).square().sum(), leaves)

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_gradients_have_the_memory_order_of_their_inputs():
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for t in tensors())
    fused_attention(q, k, v).sum().backward()
    assert [t.grad.stride() for t in (q, k, v)] == [t.stride() for t in (q, k, v)]


def test_a_second_derivative_is_refused_and_create_graph_alone_is_not():
    q, k, v = (t.requires_grad_() for t in tensors())
    (first,) = torch.autograd.grad(fused_attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="fused_attention has no second derivatives"):
        first.sum().backward()


def test_a_forward_mode_derivative_is_refused():
    q, k, v = tensors()
    with torch.autograd.forward_ad.dual_level():
        q = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(RuntimeError, match="q has a forward-mode derivative"):
            fused_attention(q, k, v)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_grad_mode_nothing_is_recorded(context):
    q, k, v = (t.requires_grad_() for t in tensors())
    expected = fused_attention(q, k, v)
    assert expected.requires_grad
    with context():
        out = fused_attention(q, k, v)
    assert not out.requires_grad and torch.equal(out, expected)


def test_an_input_changed_before_the_backward_pass_is_noticed():
    q, k, v = (t.requires_grad_() for t in tensors())
    doubled = v * 2
    out = fused_attention(q, k, doubled)
    doubled.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_training_step_compiles_without_a_graph_break(backend):
    build.load()
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(16, 48, generator=generator)
    x = torch.randn(2, 9, 16, generator=generator)

    def loss(x, weight):
        q, k, v = (x @ weight).view(2, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return fused_attention(q, k, v, is_causal=True).square().mean()

    def step(function):
        leaf = weight.clone().requires_grad_()
        function(x, leaf).backward()
        return leaf.grad

    torch.testing.assert_close(step(torch.compile(loss, backend=backend, fullgraph=True)), step(loss))


def test_memory_does_not_grow_with_the_number_of_scores(workspace):
    code = """
import resource, torch
from fused_attention import fused_attention
def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def run(seq):
    q, k, v = (torch.randn(1, 4, seq, 8).requires_grad_() for _ in range(3))
    fused_attention(q, k, v).sum().backward()
run(512)
before = megabytes()
run(3072)
print(megabytes() - before)
"""
    environment = {**os.environ, "PYTHONPATH": str(workspace)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    # One array of the scores is 151 MB; inputs, gradients and their float32 sums are 5.
    assert float(done.stdout) < 48
