"""OCI images: manifests, layers, layouts; images read from an engine and loaded into one."""
