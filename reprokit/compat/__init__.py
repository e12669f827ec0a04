"""Facts on what works together, with their sources, and rules that turn a stack into findings."""
