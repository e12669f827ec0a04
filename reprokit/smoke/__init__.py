"""Does a recipe still work: its check, its build and its smoke commands as one verdict, for CI."""
