"""The rules, one module a subject. A new rule is a new function, or a new file that is added to `MODULES`."""

from __future__ import annotations

from reprokit.compat.rule import CompatRule
from reprokit.compat.rules import (
    apis,
    base,
    cmake,
    cuda,
    cudnn,
    cutlass,
    dgl,
    distro,
    extensions,
    flash_attn,
    frameworks,
    host,
    pins,
    projects,
    python_wheels,
    requires,
    torch,
    torch_of_package,
    tvm,
)

MODULES = (
    apis, base, cmake, cuda, cudnn, cutlass, dgl, distro, extensions, flash_attn, frameworks, host, pins, projects,
    python_wheels, requires, torch, torch_of_package, tvm,
)  # fmt: skip

# In the order in which findings of one severity are shown: by file, then as the file has them.
RULES = tuple(rule for module in MODULES for rule in vars(module).values() if isinstance(rule, CompatRule))
