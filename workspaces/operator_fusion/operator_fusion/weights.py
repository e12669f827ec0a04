"""Weights of the layers: seeded random ones, or those of a Hugging Face BERT."""

from typing import Dict, List, Mapping, NamedTuple

import torch

from . import runtime
from .shapes import Shape


class LayerWeights(NamedTuple):
    """GEMM weights are [out, in], as torch.nn.Linear has them; qkv is q, k and v one after the other."""

    qkv_weight: torch.Tensor
    qkv_bias: torch.Tensor
    output_weight: torch.Tensor
    output_bias: torch.Tensor
    norm_1_weight: torch.Tensor
    norm_1_bias: torch.Tensor
    inner_weight: torch.Tensor
    inner_bias: torch.Tensor
    outer_weight: torch.Tensor
    outer_bias: torch.Tensor
    norm_2_weight: torch.Tensor
    norm_2_bias: torch.Tensor


GEMMS = ("qkv_weight", "output_weight", "inner_weight", "outer_weight")

# Modules of transformers' BertLayer, by the beginning of our names.
_BERT = {
    "output": "attention.output.dense",
    "norm_1": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "norm_2": "output.LayerNorm",
}


def sizes(shape: Shape) -> Dict[str, List[int]]:
    hidden, inner = shape.hidden, shape.inner
    widths = {
        "qkv": (3 * hidden, hidden),
        "output": (hidden, hidden),
        "inner": (inner, hidden),
        "outer": (hidden, inner),
    }
    found = {}
    for name in LayerWeights._fields:
        begin, _, kind = name.rpartition("_")
        out, width = widths.get(begin, (hidden, 0))
        found[name] = [out, width] if kind == "weight" and width else [out]
    return found


def random_weights(shape: Shape, seed: int = 0) -> List[LayerWeights]:
    """Normal with the deviation 1 / sqrt(width) for GEMMs, and about 1 for the scale of a layer norm."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, shape.dtype)

    def tensor(name: str, size: List[int]) -> torch.Tensor:
        values = torch.randn(size, generator=generator) * size[-1] ** -0.5
        if name.startswith("norm") and name.endswith("weight"):
            values += 1
        return values.to(device=shape.device, dtype=dtype)

    return [LayerWeights(**{n: tensor(n, s) for n, s in sizes(shape).items()}) for _ in range(shape.layers)]


def from_bert(state: Mapping[str, torch.Tensor], shape: Shape) -> List[LayerWeights]:
    """The first layers of a state dict of transformers' BERT, with or without the prefix "bert.".

    Raises ValueError for a tensor that is missing or of another size.
    """
    prefix = "bert." if any(name.startswith("bert.") for name in state) else ""
    expected = sizes(shape)
    found = []
    for number in range(shape.layers):
        layer = f"{prefix}encoder.layer.{number}."

        def tensor(name: str, layer: str = layer) -> torch.Tensor:
            if layer + name not in state:
                raise ValueError(f"the weights have no {layer + name}")
            return state[layer + name]

        named = {}
        for name, size in expected.items():
            begin, _, kind = name.rpartition("_")
            if begin == "qkv":
                thirds = [tensor(f"attention.self.{third}.{kind}") for third in ("query", "key", "value")]
                value = torch.cat(thirds)
            else:
                value = tensor(f"{_BERT[begin]}.{kind}")
            if list(value.shape) != size:
                raise ValueError(f"{layer}{name} is {list(value.shape)}; this shape needs {size}")
            named[name] = value.to(device=shape.device, dtype=getattr(torch, shape.dtype))
        found.append(LayerWeights(**named))
    return found


def read_bert(path: str, shape: Shape) -> List[LayerWeights]:
    """Read the weights of a safetensors or torch.save file. No code in it is run. Raises ValueError, OSError."""
    if path.endswith(".safetensors"):
        try:
            from safetensors.torch import load_file
        except ImportError:
            raise ValueError(f"{path} needs the package safetensors: python -m pip install safetensors") from None
        return from_bert(load_file(path), shape)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # pickle's, zipfile's and torch's own share no class
        raise ValueError(f"{path} is no state dict: {str(error).splitlines()[0]}") from None
    return from_bert(state, shape)


def pack(layers: List[LayerWeights], shape: Shape) -> None:
    """Packs the GEMMs' weights for this shape."""
    for layer in layers:
        for name in GEMMS:
            runtime.pack(getattr(layer, name), shape.batch * shape.seq)


def unpack(layers: List[LayerWeights]) -> None:
    for layer in layers:
        for name in GEMMS:
            runtime.unpack(getattr(layer, name))
