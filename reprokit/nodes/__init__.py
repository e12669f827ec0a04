"""Other machines: nodes behind ssh, and registries."""
