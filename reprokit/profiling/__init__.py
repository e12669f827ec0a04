"""Profiles of commands in containers: torch's profiler, Nsight Systems and Compute, perf, py-spy."""
