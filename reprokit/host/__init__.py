"""Facts about a machine: memory, disk, GPUs and driver, mounts, user, workspaces; and what it can run."""
