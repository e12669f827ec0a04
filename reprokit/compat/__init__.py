"""What fits with what: facts with their sources, and a pure evaluator that turns a stack into findings."""
