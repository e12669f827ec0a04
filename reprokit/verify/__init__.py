"""Whether an image is what its lock says: a rebuild, compared layer by layer and file by file."""
