"""The stack nearest to given pins that passes `check`, by its own rules and a solver of logic programs."""
