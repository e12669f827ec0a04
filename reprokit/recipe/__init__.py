"""Recipes: one paper each, as YAML, read into typed models."""
