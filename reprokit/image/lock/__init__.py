"""Locks of variants: resolving, reading and using them."""
