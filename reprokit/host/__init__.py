"""What the machine has, read with the standard library only."""
