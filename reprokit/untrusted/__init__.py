"""What strangers wrote, met with bounds on memory, count and time."""
