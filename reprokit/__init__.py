"""Containerised reproduction environments for GPU systems papers."""

__version__ = "0.1.0"
