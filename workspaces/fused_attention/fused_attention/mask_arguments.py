"""Check the integer arguments of masks."""

import collections.abc
import operator
from typing import Any, Sequence, Tuple, Union

import torch

Integers = Union[int, Sequence[int], torch.Tensor]


def at_least(least: int, name: str, value: Any) -> int:
    """The value as an int. Raises ValueError if it is below the bound, TypeError if it is no integer."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("%s is %r; it must be an integer, %d or more" % (name, value, least)) from None
    if number < least:
        raise ValueError("%s is %d; it must be %d or more" % (name, number, least))
    return number


def is_many(value: Integers) -> bool:
    return value.dim() > 0 if isinstance(value, torch.Tensor) else isinstance(value, collections.abc.Sequence)


def non_negatives(name: str, value: Integers) -> Tuple[int, ...]:
    """One or more numbers as a tuple. Raises ValueError or TypeError."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if not isinstance(value, collections.abc.Sequence):
        value = [value]
    return tuple(at_least(0, name, number) for number in value)
