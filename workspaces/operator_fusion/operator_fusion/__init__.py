"""Fusion plans of a BERT encoder layer: their encoding, code generated for them, and a search for the fastest."""

__version__ = "0.1.0"
