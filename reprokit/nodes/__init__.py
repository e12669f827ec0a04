"""Other machines: their names, connections, images, and how images are sent there."""
