"""The program of reprokit's own that runs inside containers."""
