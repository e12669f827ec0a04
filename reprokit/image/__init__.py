"""From a recipe's variant to an image: base, Dockerfile, build."""
