"""What is wrong with a machine: one check a file, each with a remedy. Always ends in seconds."""
