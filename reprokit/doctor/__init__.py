"""What is wrong with a machine: checks, each with a remedy. Always ends in seconds."""
