"""Base images: pulled by digest, or made of the distribution's packages."""
