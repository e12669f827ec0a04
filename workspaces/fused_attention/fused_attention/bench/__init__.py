"""The benchmark: python -m fused_attention.bench. See command.py."""

from .accuracy import check
from .command import main

__all__ = ["check", "main"]
