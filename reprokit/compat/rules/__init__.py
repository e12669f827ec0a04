"""The rules, one module a subject. A new rule is a new function, or a new file that is added to `MODULES`."""

from __future__ import annotations

from reprokit.compat.rule import CompatRule
from reprokit.compat.rules import (
    base,
    cuda,
    cudnn,
    cutlass,
    dgl,
    distro,
    flash_attn,
    frameworks,
    host,
    pins,
    sources,
    torch,
    tvm,
    wheels,
)  # fmt: skip

MODULES = (base, cuda, cudnn, cutlass, dgl, distro, flash_attn, frameworks, host, pins, sources, torch, tvm, wheels)

# In the order in which findings of one severity are shown: by file, then as the file has them.
RULES = tuple(
    rule
    for module in MODULES
    for value in vars(module).values()
    for rule in (value if isinstance(value, tuple) else (value,))
    if isinstance(rule, CompatRule)
)
