"""Many benchmark runs as one plan, on this machine, on nodes, or as Slurm job arrays."""
