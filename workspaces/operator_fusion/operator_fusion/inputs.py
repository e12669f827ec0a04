"""What a forward pass is called with: x, the additive mask, and the activations between operators."""

import math
from typing import Any, Dict, List, Optional

import torch

from . import generate, operators, runtime
from .plans import Part
from .shapes import Shape
from .weights import LayerWeights


def random_x(shape: Shape, seed: int = 1) -> torch.Tensor:
    """[batch, seq, hidden] of unit variance."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape.batch, shape.seq, shape.hidden, generator=generator)
    return x.to(device=shape.device, dtype=getattr(torch, shape.dtype))


def mask_object(shape: Shape) -> Any:
    """A mask of fused_attention.masks; None without a mask."""
    text = shape.mask_text()
    if text is None:
        return None
    from fused_attention import masks

    return eval(text, {"masks": masks})


def additive_mask(shape: Shape) -> Optional[torch.Tensor]:
    """[seq, seq]: 0 where a key is seen, -inf elsewhere. None without a mask."""
    mask = mask_object(shape)
    if mask is None:
        return None
    seen = mask.elements(shape.seq, shape.seq)[0, 0]
    hidden = torch.zeros(seen.shape).masked_fill(~seen, -math.inf)
    return hidden.to(device=shape.device, dtype=getattr(torch, shape.dtype))


class Activations:
    """Every activation of one layer, from which a part can be run alone."""

    def __init__(self, shape: Shape, weights: LayerWeights) -> None:
        self.weights = weights
        self.values: Dict[str, Any] = {"x": random_x(shape), "mask": additive_mask(shape)}
        for number, operator in enumerate(operators.LAYER, 1):
            run = runtime.load(generate.part_module((number, number), shape))["run"]
            made = run(self.of((number, number)), weights)
            self.values.update(zip(operator.makes, made if len(operator.makes) > 1 else [made]))

    def of(self, part: Part) -> List[torch.Tensor]:
        return [self.values[name] for name in operators.inputs(part)]
