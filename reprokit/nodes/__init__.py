"""Other machines: which there are, how they are reached, what they hold, and how images get there."""
