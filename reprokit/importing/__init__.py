"""From a stranger's repository to a recipe: its files are read, never run."""
