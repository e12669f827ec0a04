"""What torch.compile runs in place of the operators while it traces: shapes and checks, no values."""

from typing import Any, Tuple

import torch

_STRUCTURE = 4  # its place among the arguments of forward


def register() -> None:
    """To be called once, after the operators are registered. Before torch 2.4 they have meta kernels of their own,
    which a trace cannot use for a structured mask on a GPU."""
    register_fake = getattr(getattr(torch, "library", None), "register_fake", None)
    if register_fake is None:
        return
    operators = torch.ops.fused_attention

    def forward(*arguments: Any, **options: Any) -> torch.Tensor:
        return operators.forward_fake(*_without_structure(arguments, options, _STRUCTURE), **options)

    def backward(*arguments: Any, **options: Any) -> Tuple[torch.Tensor, ...]:
        # grad and wanted come first.
        return operators.backward_fake(*_without_structure(arguments, options, _STRUCTURE + 2), **options)

    register_fake("fused_attention::forward", forward)
    register_fake("fused_attention::backward", backward)


def _without_structure(arguments: Tuple[Any, ...], options: Any, place: int) -> Tuple[Any, ...]:
    """A trace by meta tensors wants all tensors on one device; a structure is on the CPU, wherever q is."""
    options.pop("structure", None)
    return arguments[:place] + (None,) * (len(arguments) > place) + arguments[place + 1 :]
