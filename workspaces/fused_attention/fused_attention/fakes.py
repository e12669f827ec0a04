"""The operators' fake kernels, which torch.compile runs while it traces: shapes and checks, no values."""

from typing import Any, Callable

import torch


def register() -> None:
    """Register them; call this once, after the operators are registered.

    Before torch 2.4 the operators have meta kernels instead, which cannot trace a structured mask on a GPU.
    """
    if not hasattr(getattr(torch, "library", None), "register_fake"):
        return
    operators = torch.ops.fused_attention
    for name in ("forward", "forward_lse", "backward"):
        torch.library.register_fake("fused_attention::" + name, _without_structure(getattr(operators, name + "_fake")))


def _without_structure(fake: Callable[..., Any]) -> Callable[..., Any]:
    """A call without its structure: a trace needs all tensors on one device, and a structure is always on the CPU."""
    names = [argument.name for argument in fake.default._schema.arguments]
    place = names.index("structure")

    def call(*arguments: Any, **options: Any) -> Any:
        options.pop("structure", None)
        return fake(*arguments[:place], *(None,) * (len(arguments) > place), *arguments[place + 1 :], **options)

    return call
