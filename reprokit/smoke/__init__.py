"""Check, build and try recipes, for CI; reproduce a variant from check to report."""
