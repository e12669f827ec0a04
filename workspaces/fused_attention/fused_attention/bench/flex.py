"""torch's compiled flex_attention, its fastest for sparse masks. Its eager form is never timed."""

import functools
from typing import Any, Callable, Dict, Optional

import torch

from .cases import Inputs, Unavailable

# Of 8, 16, 32, 64 and 128 (the default) the fastest or within 7 % of it on the CPU for every mask and length tried; a
# window at 512 takes a third of the default's time. On GPUs the kernels are tuned for the default.
CPU_BLOCK = 32
RECOMPILES = 1000


def compiled(inputs: Inputs, backend: Optional[str] = None) -> Callable[[], torch.Tensor]:
    """flex_attention compiled for one case, with its block mask made beforehand. Raises Unavailable with the cause.

    `backend` is its kernel option BACKEND, for GPUs.

    Dynamo runs a function eagerly, six times slower than torch's other attention, once it has compiled it often
    enough; a warning is all that says so. So the limit is raised, what was compiled before is dropped, a graph
    break is an error, and a function that ran without a graph of its own is refused.
    """
    try:
        import torch._dynamo as dynamo
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError as error:
        raise Unavailable("this torch has no flex_attention") from error
    limit = "recompile_limit" if hasattr(dynamo.config, "recompile_limit") else "cache_size_limit"
    dynamo.reset()
    dynamo.utils.counters.clear()
    device = inputs.q.device.type
    mask = None
    if inputs.rule is not None:
        batch, rows, keys = inputs.q.shape[0], inputs.q.shape[2], inputs.k.shape[2]
        block = {"BLOCK_SIZE": CPU_BLOCK} if device == "cpu" else {}
        per_batch = batch if inputs.lengths is not None else None
        mask = create_block_mask(inputs.rule, per_batch, None, rows, keys, device=device, **block)
    # Buffers are made for so many threads. Some releases of torch look up code on disk without that number, and what
    # was compiled for one thread writes beyond its buffers where there are two.
    threads = {"cpp.threads": torch.get_num_threads()}
    function = torch.compile(flex_attention, fullgraph=True, dynamic=False, options=threads)
    options: Dict[str, Any] = {"enable_gqa": True} if inputs.k.shape[1] != inputs.q.shape[1] else {}
    if backend:
        options["kernel_options"] = {"BACKEND": backend}
    run = functools.partial(function, inputs.q, inputs.k, inputs.v, block_mask=mask, **options)
    try:
        # Raised for this call alone, which compiles: other functions share the limit.
        with dynamo.config.patch(**{limit: RECOMPILES}):
            run()
    except Exception as error:  # errors of the compiler, dynamo and inductor share no class
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise Unavailable("it does not compile: " + (lines[0] if lines else type(error).__name__)) from error
    if not dynamo.utils.counters["stats"]["unique_graphs"]:
        raise Unavailable("torch.compile is switched off, and what it runs then is the eager form")
    return run
