"""Images as one file: written from an engine, read and checked, loaded into another engine."""
