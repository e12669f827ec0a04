"""Checks of a machine, each with a remedy. They end within seconds."""
