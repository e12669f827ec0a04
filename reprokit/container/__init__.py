"""Containers of recipes: settings, lifecycle, and commands in them."""
