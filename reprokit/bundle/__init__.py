"""Images as one file: written from an engine, read and checked, given to another engine."""
