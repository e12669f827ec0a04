"""Many benchmark runs as one plan, on this machine, on nodes, on a Ray cluster, or as Slurm job arrays."""
