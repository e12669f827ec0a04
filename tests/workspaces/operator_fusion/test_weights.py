"""Weights: seeded, and from a state dict with the names of transformers' BERT."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from operator_fusion import weights
from operator_fusion.shapes import Shape

SHAPE = Shape(batch=1, seq=4, heads=2, head_size=4, layers=2)


def bert_state(prefix: str = "bert.") -> dict[str, torch.Tensor]:
    hidden, inner = SHAPE.hidden, SHAPE.inner
    sizes = {f"attention.self.{name}": (hidden, hidden) for name in ("query", "key", "value")}
    sizes |= {"attention.output.dense": (hidden, hidden), "attention.output.LayerNorm": (hidden,)}
    sizes |= {"intermediate.dense": (inner, hidden), "output.dense": (hidden, inner), "output.LayerNorm": (hidden,)}
    state = {f"{prefix}embeddings.word_embeddings.weight": torch.zeros(3, hidden)}
    for number in range(3):
        for name, size in sizes.items():
            state[f"{prefix}encoder.layer.{number}.{name}.weight"] = torch.randn(size)
            state[f"{prefix}encoder.layer.{number}.{name}.bias"] = torch.randn(size[:1])
    return state


def test_random_weights_are_the_same_for_a_seed():
    first, again, other = (weights.random_weights(SHAPE, seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for x, y in zip(first, again, strict=True) for a, b in zip(x, y, strict=True))
    assert not torch.equal(first[0].qkv_weight, other[0].qkv_weight)
    assert not torch.equal(first[0].qkv_weight, first[1].qkv_weight)


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_a_bert_state_dict_is_read(tmp_path: Path, prefix: str):
    state = bert_state(prefix)
    torch.save(state, tmp_path / "model.bin")
    layers = weights.read_bert(str(tmp_path / "model.bin"), SHAPE)
    assert len(layers) == 2
    layer = f"{prefix}encoder.layer.1."
    assert torch.equal(layers[1].qkv_weight[8:16], state[layer + "attention.self.key.weight"])
    assert torch.equal(layers[1].outer_bias, state[layer + "output.dense.bias"])
    assert torch.equal(layers[1].norm_1_weight, state[layer + "attention.output.LayerNorm.weight"])


def test_a_missing_tensor_and_one_of_another_size_are_named():
    state = bert_state()
    with pytest.raises(ValueError, match=r"encoder.layer.0.qkv_weight is \[24, 8\]; this shape needs \[48, 16\]"):
        weights.from_bert(state, SHAPE._replace(heads=4))
    del state["bert.encoder.layer.1.intermediate.dense.weight"]
    with pytest.raises(ValueError, match=r"no bert\.encoder\.layer\.1\.intermediate\.dense\.weight"):
        weights.from_bert(state, SHAPE)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path):
    class Runs:
        def __reduce__(self):
            return (exec, ("raise SystemExit('ran')",))

    file = tmp_path / "model.bin"
    torch.save({"x": Runs()}, file)
    with pytest.raises(ValueError, match="is no state dict"):
        weights.read_bert(str(file), SHAPE)
