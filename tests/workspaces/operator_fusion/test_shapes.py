"""Shapes: what is refused, and the masks that they name."""

from __future__ import annotations

import pytest
from operator_fusion import inputs
from operator_fusion.shapes import MASKS, Shape


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch": 0}, "batch is 0; it must be 1 or more"),
        ({"window": 0}, "window is 0"),
        ({"mask": "x"}, "mask is 'x'; it must be one of none, causal"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"device": "cpu; import os"}, "device is 'cpu; import os'; it must be cpu, cuda or cuda:N"),
    ],
)
def test_wrong_shapes_are_refused(changed: dict, message: str):
    with pytest.raises(ValueError) as raised:
        Shape(batch=2, seq=16)._replace(**changed).checked()
    assert message in str(raised.value)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("seq", [1, 16, 50])
def test_every_mask_leaves_every_row_a_key(mask: str, seq: int):
    made = inputs.additive_mask(Shape(batch=1, seq=seq, mask=mask))
    if mask == "none":
        assert made is None
    else:
        assert made.shape == (seq, seq)
        assert bool((made == 0).any(dim=1).all())


def test_a_window_is_as_wide_as_asked():
    made = inputs.additive_mask(Shape(batch=1, seq=32, mask="window", window=3))
    assert (made == 0).sum(dim=1).tolist() == [min(i, 3) + 1 + min(31 - i, 3) for i in range(32)]
