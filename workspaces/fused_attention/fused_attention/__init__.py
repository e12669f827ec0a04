"""Masked attention in one kernel, as a torch operator that compiles itself on its first call.

Every Python file of this package runs on Python 3.6 and torch 1.8: it goes into containers of that age.
"""

from .op import fused_attention

__all__ = ["fused_attention"]

__version__ = "0.1.0"
