"""Run benchmarks in containers, parse their output into measurements, and append these to records."""
