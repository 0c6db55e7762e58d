"""Records of a hub: audit, usage, metrics and traces."""
