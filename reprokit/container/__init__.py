"""Containers of recipes: what they are made of, their life, and commands in them."""
