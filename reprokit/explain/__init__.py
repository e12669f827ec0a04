"""Failure logs: the first cause, in one pass, with its remedy. Rules are data in `rules/*.yaml`."""
