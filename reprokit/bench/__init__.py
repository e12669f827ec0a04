"""Benchmarks inside containers: output becomes figures, figures records, like records medians."""
