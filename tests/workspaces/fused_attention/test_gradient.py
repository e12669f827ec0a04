"""There is no backward pass: a gradient must be refused, never silently cut."""

from __future__ import annotations

import pytest
import torch
from fused_attention import fused_attention

pytestmark = pytest.mark.extension


def arguments():
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(1, 2, 5, 8, generator=generator) for name in "qkv"} | {"mask": torch.zeros(5, 5)}


@pytest.mark.parametrize("name", ["q", "k", "v", "mask"])
def test_gradient_is_refused(name):
    tensors = arguments()
    tensors[name].requires_grad_()
    message = rf"{name} requires a gradient, .* torch.no_grad\(\) or pass {name}.detach\(\)"
    with pytest.raises(RuntimeError, match=message):
        fused_attention(**tensors)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_the_ways_out(context):
    tensors = arguments()
    expected = fused_attention(**tensors)
    parameters = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    with context():
        out = fused_attention(**parameters)
    assert torch.equal(out, expected) and not out.requires_grad
    assert torch.equal(fused_attention(**{name: t.detach() for name, t in parameters.items()}), expected)


def test_forward_mode_gradient_is_refused():
    tensors = arguments()
    with torch.autograd.forward_ad.dual_level():
        tensors["q"] = torch.autograd.forward_ad.make_dual(tensors["q"], torch.ones_like(tensors["q"]))
        with pytest.raises(RuntimeError, match="q requires a gradient"):
            fused_attention(**tensors)
